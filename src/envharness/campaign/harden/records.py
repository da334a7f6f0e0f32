"""What a hardening run writes down: every task as it is, every variant of it, and the matrix over both."""

from __future__ import annotations

from typing import Literal

from pydantic import BaseModel, ConfigDict, Field

from envharness.campaign.harden.config import Kind
from envharness.core.spec import StackSpec

Status = Literal["played", "unaffected", "unsolvable", "not_applicable", "invalid"]
"""`played`: measured. `unaffected`: it changes nothing on the recorded steps, so the baseline stands for it.
`unsolvable`: known wins exist and none verifies in it. `not_applicable`: its start is no start. `invalid`: our side
failed, nothing is known.
"""
Finding = Literal["leans", "gains", "unclear", "not_played"]
"""`leans`: the whole interval of the drop is above 0; `gains`: below it; `unclear`: it holds 0."""


class Variant(BaseModel):
    """One thing done to a whole suite."""

    model_config = ConfigDict(frozen=True)

    id: str
    """Kind and name, such as `tools/combine` or `fields/target`."""
    kind: Kind
    what: str
    """What is different, in one line."""


class Tally(BaseModel):
    """Outcomes of rollouts, over one task or many. Rates and means are over the valid ones."""

    model_config = ConfigDict(frozen=True)

    asked: int = 0
    valid: int = 0
    won: int = 0
    steps: int = 0
    """Turns of the valid rollouts together."""
    reasons: dict[str, int] = Field(default_factory=dict)
    """How often valid rollouts were lost for which reason, by name."""

    @property
    def success_rate(self) -> float | None:
        """Share of the valid rollouts won, or None where there is none."""
        return self.won / self.valid if self.valid else None

    @property
    def mean_steps(self) -> float | None:
        """Turns of a valid rollout, or None where there is none."""
        return self.steps / self.valid if self.valid else None

    def __add__(self, other: Tally) -> Tally:
        names = sorted({*self.reasons, *other.reasons})
        return Tally(
            asked=self.asked + other.asked,
            valid=self.valid + other.valid,
            won=self.won + other.won,
            steps=self.steps + other.steps,
            reasons={name: self.reasons.get(name, 0) + other.reasons.get(name, 0) for name in names},
        )


class CaseResult(BaseModel):
    """One variant of one task."""

    variant: str
    task: str
    status: Status
    detail: str = ""
    """What was done to the task, and why it has this status."""
    verified: bool | None = None
    """Whether a known win verifies in it; None where none is known, or nothing was tried."""
    baseline: Tally = Tally()
    """What it compares with: the task as it is; chained, rollouts of both tasks that have the same number."""
    played: Tally = Tally()
    episodes: tuple[str, ...] = ()
    """Keys of the variant's rollouts, in index order."""
    stack: StackSpec | None = None

    @property
    def winnable(self) -> bool:
        """Whether it is known that it can be won."""
        return self.status == "played" and (self.verified is True or self.played.won > 0)


class TaskBaseline(BaseModel):
    """One task as it is."""

    task: str
    tally: Tally
    episodes: tuple[str, ...] = ()


class Row(BaseModel):
    """One line of the dependency matrix: a variant over all tasks in which it was played."""

    variant: Variant
    cases: dict[Status, int]
    """In how many tasks it was played, changed nothing, and so on."""
    baseline: Tally
    """The tasks played, as they are."""
    played: Tally
    """The same tasks in the variant."""
    baseline_interval: tuple[float, float]
    played_interval: tuple[float, float]
    """95 % Wilson intervals of the two success rates."""
    drop: float | None
    """Success rate as it is less that in the variant; None where nothing was measured."""
    drop_interval: tuple[float, float]
    """95 % interval of the drop (Newcombe); (-1, 1) where nothing was measured."""
    finding: Finding


class HardenResult(BaseModel):
    """A hardening run in figures."""

    environment: str
    policy: str
    seed: int
    rollouts_each: int
    """K."""
    tasks: list[TaskBaseline]
    baseline: Tally
    """All tasks as they are."""
    baseline_interval: tuple[float, float]
    rows: list[Row]
    cases: list[CaseResult]
    left_out: dict[str, int] = Field(default_factory=dict)
    """Kind → variants that were not played because there are more than `most`."""
    rollouts: int
    invalid: int
    """Rollouts among them that the machinery lost."""
    seconds: float
    run_dir: str

    @property
    def undecided(self) -> list[CaseResult]:
        """Variants of tasks that nothing is known about, because our side failed."""
        return [case for case in self.cases if case.status == "invalid"]

    @property
    def complete(self) -> bool:
        """Whether every rollout asked for is valid, so that no start of the run can add to it."""
        return not self.undecided and all(
            tally.valid == tally.asked for tally in (self.baseline, *(case.played for case in self.cases))
        )

    @property
    def worst(self) -> tuple[str, float] | None:
        """Name and success rate of the worst of the baseline and all variants played; None where nothing is valid."""
        rates = [("baseline", self.baseline.success_rate)]
        rates += [(row.variant.id, row.played.success_rate) for row in self.rows]
        known = [(name, rate) for name, rate in rates if rate is not None]
        return min(known, key=lambda entry: entry[1], default=None)
