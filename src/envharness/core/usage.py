"""What model calls cost: token counts and money."""

from __future__ import annotations

from pydantic import BaseModel, ConfigDict, Field

from envharness.core.known import known


class Usage(BaseModel):
    """Tokens of one or more model calls. `cached` is part of `prompt`, `reasoning` part of `completion`."""

    model_config = ConfigDict(frozen=True)

    calls: int = Field(default=0, ge=0)
    prompt: int = Field(default=0, ge=0)
    cached: int = Field(default=0, ge=0)
    completion: int = Field(default=0, ge=0)
    reasoning: int = Field(default=0, ge=0)
    cost: float = Field(default=0.0, ge=0.0)
    """Money, in the unit of the configured price table; 0 where none is configured."""

    def __add__(self, other: Usage) -> Usage:
        return known(
            Usage,
            {
                "calls": self.calls + other.calls,
                "prompt": self.prompt + other.prompt,
                "cached": self.cached + other.cached,
                "completion": self.completion + other.completion,
                "reasoning": self.reasoning + other.reasoning,
                "cost": self.cost + other.cost,
            },
        )


class Meter:
    """Sums up what an episode uses while it is played, for whoever has to end it before it can say so itself."""

    def __init__(self) -> None:
        self.used = Usage()


NO_USAGE = Usage()
"""What a turn without a model call uses."""
