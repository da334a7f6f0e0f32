"""What a hardening run is told: a suite, a policy, and which kinds of variants to play."""

from __future__ import annotations

from typing import Literal, Self, get_args

from pydantic import BaseModel, ConfigDict, Field, ValidationError, model_validator

from envharness.core.messages import first_problem
from envharness.core.policy import PolicySpec
from envharness.rigger.config import EnvironmentConfig, RigConfig, TaskSelection
from envharness.rollouts.job import Limits

Kind = Literal["tools", "fields", "habits", "staged", "chained"]
KINDS: tuple[Kind, ...] = get_args(Kind)


class HardenConfig(BaseModel):
    """A hardening run. Everything that decides its content is here, so a resumed run can be held to it."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    environment: EnvironmentConfig
    tasks: list[str] | TaskSelection
    policy: PolicySpec
    rollouts: int = Field(default=5, ge=1, le=10_000)
    """K: rollouts of each task as it is, and of each variant of it."""
    variants: tuple[Kind, ...] = Field(default=KINDS, min_length=1)
    """The kinds of variants that are played."""
    most: int = Field(default=12, ge=1, le=1000)
    """Variants of one kind at most: the most used tools, the first fields. What is left out is said."""
    seed: int = 0
    limits: Limits = Limits()
    """What one episode may use; a chained variant may use twice as much."""
    insist_irreversible: bool = False
    """Whether to go on although the bridge says that a reset cannot undo an episode."""

    @model_validator(mode="after")
    def _check(self) -> Self:
        try:
            suite = self.suite
        except ValidationError as error:
            raise ValueError(first_problem(error)[1].removeprefix("Value error, ")) from error
        if len(set(self.variants)) != len(self.variants):
            raise ValueError("variants: a kind is named twice")
        single = len(suite.tasks) == 1 if isinstance(suite.tasks, list) else suite.tasks.count == 1
        if single and self.variants == ("chained",):
            raise ValueError("variants: 'chained' joins two tasks of the suite; name two or more under 'tasks'")
        return self

    @property
    def suite(self) -> RigConfig:
        """The suite as a rigging run would take it: tasks are chosen, and wrong ones refused, in the same way."""
        return RigConfig(
            environment=self.environment,
            tasks=self.tasks,
            policy=self.policy,
            rollouts=self.rollouts,
            seed=self.seed,
            limits=self.limits,
            insist_irreversible=self.insist_irreversible,
        )
