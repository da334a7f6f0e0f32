"""What a rigging run is told: environment, tasks, policy, designer, budget, band and seed."""

from __future__ import annotations

from fnmatch import fnmatchcase
from math import inf
from pathlib import Path
from typing import Literal, Self

from pydantic import BaseModel, ConfigDict, Field, JsonValue, model_validator

from envharness.core.errors import ConfigError
from envharness.core.policy import PolicySpec
from envharness.core.seeding import stream
from envharness.rigger.records import NULL_DESIGNER
from envharness.rollouts.job import Limits

DEFAULT_CAP = 300
"""Rollouts a task, where a rule of probabilities is given none."""


class EnvironmentConfig(BaseModel):
    """Which bridge, and its constructor's options. The option `task` is set by the run, task by task."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    id: str
    options: dict[str, JsonValue] = Field(default_factory=dict)


class DesignerConfig(BaseModel):
    """Which designer writes the components, and its options."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    id: str = "template"
    options: dict[str, JsonValue] = Field(default_factory=dict)


class TaskSelection(BaseModel):
    """A choice among the tasks that the environment lists."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    count: int = Field(ge=1)
    """How many; asking for more than match is an error, never a smaller run."""
    match: str = "*"
    """Shell-style pattern on the task id."""
    order: Literal["first", "spread", "sample"] = "first"
    """`first` in sorted order, evenly `spread` over it, or a `sample` drawn with the run's seed."""


class AcceptanceConfig(BaseModel):
    """How much evidence accepts a component. `objective` and band say what is aimed at; this says how sure to be.

    `empirical` is the method's rule: the rate of K rollouts lies in the band. `posterior` accepts where the probability
    that the true rate is on target reaches `threshold`, and plays on while it is undecided. `dose` does the same with
    one response curve a task and type of component, which every rollout at any magnitude teaches; a candidate without
    a magnitude is judged as by `posterior`.
    """

    model_config = ConfigDict(frozen=True, extra="forbid")

    rule: Literal["empirical", "posterior", "dose"] = "empirical"
    threshold: float = Field(default=0.9, gt=0.0, lt=1.0)
    """The probability on target that accepts. Not for `empirical`."""
    drop: float = Field(default=0.15, ge=0.0, lt=1.0)
    """A candidate less probable than this to be on target is not played on. Not for `empirical`."""
    hopeless: float = Field(default=0.04, ge=0.0, lt=1.0)
    """`dose`: a task is given up once no type can be brought on target with this probability."""
    batch: int = Field(default=5, ge=1, le=10_000)
    """Rollouts between two looks. Not for `empirical`, whose batch is `rollouts`."""
    cap: int | None = Field(default=None, ge=1)
    """The most rollouts a task may pay for, its baseline included; None is 300, and no cap under `empirical`."""

    @model_validator(mode="after")
    def _check(self) -> Self:
        if self.drop >= self.threshold:
            raise ValueError(f"drop {self.drop:g} must be below threshold {self.threshold:g}")
        # Compared with the defaults, not with what was given: a stored configuration spells everything out.
        unread = {"empirical": ("threshold", "drop", "hopeless", "batch"), "posterior": ("hopeless",), "dose": ()}
        for name in unread[self.rule]:
            if getattr(self, name) != AcceptanceConfig.model_fields[name].default:
                raise ValueError(f"{name} means nothing under the rule {self.rule!r}: leave it out")
        return self

    @property
    def most_rollouts(self) -> float:
        """The cap in force; infinite where there is none."""
        if self.cap is not None:
            return self.cap
        return inf if self.rule == "empirical" else DEFAULT_CAP


class RigConfig(BaseModel):
    """A rigging run. Everything that decides its content is here, so a resumed run can be held to it."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    environment: EnvironmentConfig
    tasks: list[str] | TaskSelection
    policy: PolicySpec
    designer: DesignerConfig = DesignerConfig()
    stacks: str | None = None
    """File or folder of stacks accepted earlier, one a task, to build on. None starts from the bare tasks."""
    witnesses: str | None = None
    """Folder of another run, such as a stronger policy's, whose wins on the same stacks count as known wins here."""
    null: bool = True
    """Whether the identity designer runs on the same tasks, as the null that every share is read against."""
    rollouts: int = Field(default=5, ge=1, le=10_000)
    """K: rollouts of a baseline and of a round. All of them run, and a decision needs all of them."""
    rounds: int = Field(default=5, ge=1, le=1000)
    """Write-validate rounds a task may use. Under `dose` a designer that steers is bound by the cap alone."""
    band: tuple[float, float] = (0.4, 0.6)
    """The target: success rates, both ends included."""
    acceptance: AcceptanceConfig = AcceptanceConfig()
    remeasure: int = Field(default=0, ge=0, le=100_000)
    """Fresh rollouts a task, before and after, that take part in no decision; 0 leaves the re-measurement out."""
    check_retries: int = Field(default=3, ge=0, le=100)
    """Further candidates a round may try where a free check fails, before the round is lost."""
    seed: int = 0
    limits: Limits = Limits()
    sharpen: bool = False
    """Whether a task that is in the band already is worked on; otherwise it is left as it is."""
    insist_irreversible: bool = False
    """Whether to go on although the bridge says that a reset cannot undo an episode."""
    insist_unfaithful: bool = False
    """Whether to go on although resets with one seed do not lead to one start; nothing is asked then."""
    scaffold_from_reference: bool = False
    """Whether hints and prefixes may come from the benchmark's reference solution where the policy has no win."""

    @model_validator(mode="after")
    def _check(self) -> Self:
        low, high = self.band
        if not 0.0 <= low <= high <= 1.0:
            raise ValueError(f"band: {list(self.band)} must be two rates with 0 <= low <= high <= 1")
        if "task" in self.environment.options:
            raise ValueError("environment.options.task: name tasks under the key 'tasks'")
        if isinstance(self.tasks, list):
            if not self.tasks:
                raise ValueError("tasks: name at least one task")
            if len(set(self.tasks)) != len(self.tasks):
                doubled = next(task for task in self.tasks if self.tasks.count(task) > 1)
                raise ValueError(f"tasks: {doubled!r} is named twice")
        if (cap := self.acceptance.most_rollouts) < self.rollouts:
            raise ValueError(f"acceptance.cap: {cap} rollouts are less than the baseline takes ({self.rollouts})")
        if self.designer.id == NULL_DESIGNER and not self.null:
            raise ValueError("null: the designer is the null itself; leave 'null' on")
        return self

    def check_policy(self) -> None:
        """Raise ConfigError where the policy cannot be made, or would play all rollouts of a batch the same way."""
        self.policy.check()
        if self.rollouts > 1 and self.policy.repeats_itself():
            raise ConfigError(
                f"policy {self.policy.id!r} at temperature 0 plays all {self.rollouts} rollouts the same way, so its "
                f"success rate can only be 0 or 1 and never lie in the band {list(self.band)}: set "
                "policy.options.model.sampling.temperature above 0 (or rollouts: 1)"
            )

    def choose_tasks(self, available: list[str]) -> list[str]:
        """Return the tasks of the run, in order. Raises ConfigError naming a task that is not `available`."""
        if isinstance(self.tasks, list):
            known = set(available)
            if missing := [task for task in self.tasks if task not in known]:
                raise ConfigError(
                    f"tasks: {self.environment.id} has no task {missing[0]!r} "
                    f"({len(available)} tasks, the first is {available[0] if available else 'none'!r})"
                )
            return list(self.tasks)
        matching = [task for task in available if fnmatchcase(task, self.tasks.match)]
        count = self.tasks.count
        if len(matching) < count:
            first = available[0] if available else "none"
            raise ConfigError(
                f"tasks: asked for {count} that match {self.tasks.match!r}, but of the {len(available)} tasks that "
                f"{self.environment.id} lists (the first is {first!r}) {len(matching)} do; is its data installed?"
            )
        if self.tasks.order == "sample":
            return sorted(stream(self.seed, "tasks").sample(matching, count))
        if self.tasks.order == "spread":
            return [matching[index * len(matching) // count] for index in range(count)]
        return matching[:count]

    @property
    def stack_path(self) -> Path | None:
        """Where earlier stacks are, or None."""
        return Path(self.stacks) if self.stacks else None

    @property
    def witness_path(self) -> Path | None:
        """Where another run's wins are, or None."""
        return Path(self.witnesses) if self.witnesses else None
