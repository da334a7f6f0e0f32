"""Routers of a Chain: pure decisions on which segment comes next, and which segments the verdict needs."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Annotated, Literal

import orjson
from pydantic import BaseModel, ConfigDict, Field, JsonValue, field_validator

from envharness.core.errors import SpecError
from envharness.core.types import Action


@dataclass(frozen=True)
class Stay:
    """Go on in the active segment."""


@dataclass(frozen=True)
class Switch:
    """Go to another segment; it is reset on its first visit only."""

    segment: int


@dataclass(frozen=True)
class End:
    """The whole episode is over."""


Route = Stay | Switch | End


@dataclass(frozen=True)
class Situation:
    """All that a router may look at."""

    active: int
    """0-based index of the segment that is played."""
    visited: tuple[int, ...]
    """Segments that have been started, in order of their first visit; the active one is among them."""
    successes: tuple[bool | None, ...]
    """For each segment, whether its verifier called it a success at its end; None while it is not over."""
    steps_here: int
    """Steps since the active segment was entered, refused ones included."""

    @property
    def lost(self) -> bool:
        """Whether the active segment is over and failed."""
        return self.successes[self.active] is False

    @property
    def over(self) -> bool:
        """Whether the active segment is over."""
        return self.successes[self.active] is not None

    def unfinished_after(self, among: Sequence[int]) -> int | None:
        """Return the next of `among`, cyclically after the active segment, that is not over; None where none is."""
        count = len(self.successes)
        candidates = ((self.active + offset) % count for offset in range(1, count))
        return next((i for i in candidates if i in among and self.successes[i] is None), None)


class _Router(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid")

    def before(self, action: Action, situation: Situation) -> Route:
        """Say where `action`, as the policy named it, is to be executed: here (Stay) or elsewhere (Switch)."""
        del action, situation
        return Stay()

    def targets(self) -> frozenset[int] | None:
        """Return the segments that the options lead to; None where every segment is reached in turn."""
        return None

    def check(self, segments: int) -> None:
        """Raise SpecError where the options do not fit a chain of that many segments."""
        targets = self.targets()
        if targets is None:
            return
        if unknown := sorted(target for target in targets if not 0 <= target < segments):
            raise SpecError(f"there is no segment {unknown[0]}; the segments are 0 to {segments - 1}", place="router")
        if unreached := sorted(set(range(segments)) - targets - {0}):
            raise SpecError(f"segment {unreached[0]} is never reached by this router", place="router")


class Serial(_Router):
    """One segment after the other. A segment that fails ends the episode; success needs them all."""

    name: Literal["serial"] = "serial"

    def after(self, action: Action | None, situation: Situation) -> Route:
        """Go on to the next segment after a success."""
        del action
        if not situation.over:
            return Stay()
        following = situation.active + 1
        return End() if situation.lost or following == len(situation.successes) else Switch(following)

    def required(self, visited: Sequence[int], successes: Sequence[bool | None]) -> frozenset[int]:
        """Return all segments: those visited and all their successors."""
        del visited
        return frozenset(range(len(successes)))


class BranchOnOutcome(_Router):
    """Segment 0 decides which one other segment follows; None is the end of the episode."""

    name: Literal["branch_on_outcome"] = "branch_on_outcome"
    on_success: int | None = 1
    on_failure: int | None = 2

    @field_validator("on_success", "on_failure")
    @classmethod
    def _leads_on(cls, target: int | None) -> int | None:
        if target == 0:
            raise ValueError("a branch cannot lead back to segment 0, which decides it")
        return target

    def targets(self) -> frozenset[int]:
        """Return the branches."""
        return frozenset(branch for branch in (self.on_success, self.on_failure) if branch is not None)

    def after(self, action: Action | None, situation: Situation) -> Route:
        """Take the branch of the routing segment's verdict."""
        del action
        if not situation.over:
            return Stay()
        branch = self._branch(lost=situation.lost) if situation.active == 0 else None
        return End() if branch is None else Switch(branch)

    def required(self, visited: Sequence[int], successes: Sequence[bool | None]) -> frozenset[int]:
        """Return the branch that the routing segment's verdict leads to, and that segment unless it was excused.

        A branch that is still to come is required too: else to stop before it would be a way to win.
        """
        del visited
        lost = successes[0] is not True
        branch = self._branch(lost=lost)
        excused = lost and branch is not None
        return frozenset(([] if excused else [0]) + ([] if branch is None else [branch]))

    def _branch(self, *, lost: bool) -> int | None:
        return self.on_failure if lost else self.on_success


class SwitchRule(BaseModel):
    """An action that leads to a segment. `tool` and the values of `arguments` are regular expressions of the whole.

    An argument that is not a string is matched as JSON. `acts_in` says where the action itself is executed: in the
    segment it leads to, or in the one it leaves.
    """

    model_config = ConfigDict(frozen=True, extra="forbid")

    tool: str
    arguments: dict[str, str] = Field(default_factory=dict)
    to: int = Field(ge=0)
    acts_in: Literal["target", "current"] = "target"

    @field_validator("tool", "arguments")
    @classmethod
    def _compiles(cls, value: str | dict[str, str]) -> str | dict[str, str]:
        for pattern in value.values() if isinstance(value, dict) else (value,):
            try:
                re.compile(pattern)
            except re.error as error:
                raise ValueError(f"{pattern!r} is not a regular expression: {error}") from error
        return value

    def matches(self, action: Action) -> bool:
        """Whether the rule is about `action`."""
        return re.fullmatch(self.tool, action.name) is not None and all(
            name in action.kwargs and re.fullmatch(pattern, _as_text(action.kwargs[name])) is not None
            for name, pattern in self.arguments.items()
        )


class SwitchOnAction(_Router):
    """The policy goes from segment to segment by what it does; the first rule that matches counts.

    A segment left behind is found again as it was. When the active segment ends, the next started one that is not over
    goes on; where there is none, or the segment failed, the episode ends.
    """

    name: Literal["switch_on_action"] = "switch_on_action"
    rules: tuple[SwitchRule, ...] = Field(min_length=1)

    def targets(self) -> frozenset[int]:
        """Return where the rules lead."""
        return frozenset(rule.to for rule in self.rules)

    def before(self, action: Action, situation: Situation) -> Route:
        """Go first where the action is to be executed there."""
        rule = self._rule(action)
        if rule is None or rule.acts_in == "current" or rule.to == situation.active:
            return Stay()
        return Switch(rule.to)

    def after(self, action: Action | None, situation: Situation) -> Route:
        """Leave a segment that is over, or by an action that is executed before it leads on."""
        if situation.over:
            following = None if situation.lost else situation.unfinished_after(situation.visited)
            return End() if following is None else Switch(following)
        rule = None if action is None else self._rule(action)
        if rule is None or rule.acts_in == "target" or rule.to == situation.active:
            return Stay()
        return Stay() if situation.successes[rule.to] is not None else Switch(rule.to)

    def required(self, visited: Sequence[int], successes: Sequence[bool | None]) -> frozenset[int]:
        """Return the segments visited: which ones those are is the policy's choice."""
        del successes
        return frozenset(visited)

    def _rule(self, action: Action) -> SwitchRule | None:
        return next((rule for rule in self.rules if rule.matches(action)), None)


class Alternate(_Router):
    """Each segment in turn for `every` steps, until all are over or one has failed; success needs them all."""

    name: Literal["alternate"] = "alternate"
    every: int = Field(default=5, ge=1)

    def after(self, action: Action | None, situation: Situation) -> Route:
        """Go to the next segment that is not over."""
        del action
        if situation.lost:
            return End()
        if not situation.over and situation.steps_here < self.every:
            return Stay()
        following = situation.unfinished_after(range(len(situation.successes)))
        if following is None:
            return End() if situation.over else Stay()
        return Switch(following)

    def required(self, visited: Sequence[int], successes: Sequence[bool | None]) -> frozenset[int]:
        """Return all segments: each has its turn, so none is won by stopping before it."""
        del visited
        return frozenset(range(len(successes)))


Router = Annotated[Serial | BranchOnOutcome | SwitchOnAction | Alternate, Field(discriminator="name")]


def _as_text(value: JsonValue) -> str:
    return value if isinstance(value, str) else orjson.dumps(value).decode()
