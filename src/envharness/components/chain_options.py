"""The options of a Chain, which are also its saved state."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from pydantic import BaseModel, ConfigDict, Field, ValidationError, field_validator

from envharness.components.handoff import Handoff
from envharness.components.routers import Router, Serial
from envharness.components.tool_union import ToolClashes
from envharness.core.errors import SpecError
from envharness.core.messages import first_problem


class ChainOptions(BaseModel):
    """All that a Chain is made of beside its segments; see Chain for what each option means."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    router: Router = Serial()
    """A router, its options as an object with `name`, or just its name."""
    max_steps: int | None = Field(default=None, ge=1)
    strict: bool = False
    handoff: Handoff = Handoff()
    tool_clashes: ToolClashes = "error"

    @field_validator("router", mode="before")
    @classmethod
    def _named(cls, router: Any) -> Any:
        return {"name": router} if isinstance(router, str) else router

    @classmethod
    def of(cls, options: Mapping[str, Any]) -> ChainOptions:
        """Check options. Raises SpecError naming the one that is wrong."""
        try:
            return cls.model_validate(options)
        except ValidationError as error:
            place, message = first_problem(error)
            raise SpecError(message, place=place) from error
