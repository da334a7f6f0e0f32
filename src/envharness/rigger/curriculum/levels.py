"""What a level is: an accepted stack, where it comes from, and how each version of the policy fared on it."""

from __future__ import annotations

from typing import Self

from pydantic import BaseModel, ConfigDict, Field, model_validator

from envharness.core.canonical import digest
from envharness.core.spec import StackSpec
from envharness.rigger.records import Direction
from envharness.rollouts.job import Limits

ID_LENGTH = 16


class Lineage(BaseModel):
    """Why a level exists: the weakness it answers, and the run, designer and policy version it was made for."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    flaw: str
    diagnosis: str = ""
    direction: Direction
    designer: str
    template: str = ""
    """Empty where a model wrote the component."""
    magnitude: float | None = None
    policy: str
    """The version of the policy whose weakness it was."""
    run: str
    """The run's label or folder name."""
    parent: str | None = None
    """Id of the level that the component was put on; None where it was put on the bare task."""


class LevelOutcome(BaseModel):
    """Rollouts of one version of the policy on one level, in one round of the curriculum."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    policy: str
    round: int = Field(ge=0)
    source: str
    """Which measurement this was, such as a run's label: the same source is counted once."""
    successes: int = Field(ge=0)
    trials: int = Field(ge=0)
    """Valid rollouts; what failed on the machinery's side is not among them."""

    @model_validator(mode="after")
    def _check(self) -> Self:
        if self.successes > self.trials:
            raise ValueError(f"{self.successes} successes of {self.trials} trials")
        return self


class Level(BaseModel):
    """An environment to learn in."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    task: str
    stack: StackSpec
    env_seed: int
    """The world that the component was made for; another one may not let its Stage replay."""
    limits: Limits
    lineage: Lineage
    outcomes: tuple[LevelOutcome, ...] = ()
    """In the order in which they were measured."""
    retired: str = ""
    """Why it is not played any more; empty while it is."""

    @property
    def id(self) -> str:
        """The level's name: equal stacks are one level, whichever run made them."""
        return stack_id(self.stack)

    @property
    def last_round(self) -> int:
        """The latest round it was measured in; -1 where it never was."""
        return max((outcome.round for outcome in self.outcomes), default=-1)

    def staleness(self, now: int) -> int:
        """Return the rounds since it was measured, at least 0."""
        return max(0, now - self.last_round)


def stack_id(stack: StackSpec) -> str:
    """Return the id of the level that plays `stack`: hexadecimal digits."""
    return digest(stack.model_dump(mode="json"), ID_LENGTH)
