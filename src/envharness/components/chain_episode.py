"""How far an episode of a Chain has come: which segment is active, what was visited, and what was judged."""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass, field

from envharness.components.routers import Situation
from envharness.core.types import EvaluationResult, JsonDict, Observation


@dataclass
class ChainEpisode:
    """One episode, from a reset to the next."""

    seed: int | None
    options: JsonDict
    max_steps: int | None
    """The budget of all segments together; None sets none."""
    verdicts: list[EvaluationResult | None]
    """For each segment, what its verifier said at its end; None while it is not over."""
    recent: deque[str]
    """The last observations of the active segment."""
    active: int = 0
    acted_in: int = 0
    """The segment that executed the last action."""
    steps: int = 0
    steps_here: int = 0
    """Steps since the active segment was entered, or since a Stage's replay was complete."""
    visited: list[int] = field(default_factory=list[int])
    shown: Observation | None = None
    """The hand-off while it is the current observation; None after an ordinary step."""
    ended: bool = False

    @property
    def spent(self) -> bool:
        """Whether the budget is used up."""
        return self.max_steps is not None and self.steps >= self.max_steps

    def situation(self) -> Situation:
        """Return what a router may look at."""
        successes = tuple(None if verdict is None else verdict.success for verdict in self.verdicts)
        return Situation(self.active, tuple(self.visited), successes, self.steps_here)
