"""The observation at a boundary of a Chain: it says that the task changed and carries the tail of the last one."""

from __future__ import annotations

import string
from collections.abc import Sequence

from pydantic import BaseModel, ConfigDict, Field, JsonValue, field_validator

from envharness.core.types import Observation

_FIELDS = frozenset({"last", "next", "count"})


class Handoff(BaseModel):
    """How the policy learns of a change of task. Nothing in it tells how the last task was judged.

    The texts may hold `{last}`, `{next}` and `{count}`: the 1-based numbers of the task left and of the task that goes
    on, and how many tasks there are.
    """

    model_config = ConfigDict(frozen=True, extra="forbid")

    announce: bool = True
    """Whether the change is announced at all."""
    on_start: str = "The task has changed: task {next} of {count} starts here."
    on_return: str = "The task has changed: back to task {next} of {count}, where you left it."
    """For a segment that was started before."""
    tail_steps: int = Field(default=1, ge=0)
    """How many of the last observations of the task left are carried along; 0 is none."""
    tail_characters: int = Field(default=2000, ge=1)
    """The tail is cut to so many characters, from its end."""
    tail_heading: str = "Before the change you saw:"

    @field_validator("on_start", "on_return")
    @classmethod
    def _knows_its_fields(cls, template: str) -> str:
        try:
            used = {(field, spec, conversion) for _, field, spec, conversion in string.Formatter().parse(template)}
        except ValueError as error:
            raise ValueError(f"{template!r} is not a template: {error}") from error
        # Only bare names: a format specification or attribute access is a mistake here, never a need.
        for field, spec, conversion in used:
            if field is not None and (field not in _FIELDS or spec or conversion):
                raise ValueError(f"unknown field {{{field}}} (known: {', '.join(sorted(_FIELDS))})")
        return template

    def compose(
        self, current: Observation, *, last: int, following: int, count: int, returning: bool, recent: Sequence[str]
    ) -> Observation:
        """Return what is shown when segment `following` takes over from `last` (0-based) and shows `current`."""
        template = self.on_return if returning else self.on_start
        announcement = template.format(last=last + 1, next=following + 1, count=count) if self.announce else ""
        tail = "\n\n".join(recent[-self.tail_steps :])[-self.tail_characters :] if self.tail_steps else ""
        carried = f"{self.tail_heading}\n{tail}" if tail else ""
        data: dict[str, JsonValue] = dict(current.data)
        if announcement or tail:
            data["handoff"] = {"announcement": announcement, "tail": tail}
        return Observation(text="\n\n".join(part for part in (announcement, carried, current.text) if part), data=data)
