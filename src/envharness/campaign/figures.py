"""From the outcomes of all cells to figures: estimates with intervals, curves at equal spend, paired differences."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from math import isfinite, isnan

from pydantic import BaseModel

from envharness.campaign.measures import MEASURES, Measure, Value
from envharness.campaign.outcomes import TaskOutcome
from envharness.core.seeding import derive_seed
from envharness.statistics.paired import (
    Draws,
    Numbers,
    cluster_draws,
    holm,
    mcnemar_test,
    percentile_interval,
    ratio,
    ratio_samples,
    sign_flip_test,
    swap_test,
)

LEVEL = 0.95
CURVE_POINTS = 6
"""Budgets at which designers are compared at equal spend, the largest being all that a task may pay for."""


class Estimate(BaseModel):
    """A value with its 95 % interval. A missing value is one divided by nothing; a missing `high` has no bound."""

    value: float | None
    low: float | None
    high: float | None


class CurvePoint(BaseModel):
    """Shares of all tasks once no task was allowed more than `budget` rollouts."""

    budget: int
    counted: Estimate
    fresh: Estimate | None
    """Of those the ones that fresh rollouts find in band; None where none were asked for."""


class Difference(BaseModel):
    """A designer against the reference on the same tasks: designer minus reference."""

    policy: str
    designer: str
    reference: str
    measure: str
    difference: Estimate
    p: float
    """Two-sided, from swapping the two sides of whole tasks."""
    p_adjusted: float
    """The same, adjusted (Holm) for the designers that are held against the reference by this measure."""
    higher: int
    """Tasks where the designer's value is the higher one, all seeds together."""
    lower: int
    mcnemar: float | None
    """The p-value of McNemar's test; None with several seeds, and where outcomes are not yes or no."""


@dataclass(frozen=True)
class Sample:
    """The outcomes of one designer with one policy: for each task, one outcome a seed."""

    outcomes: tuple[tuple[TaskOutcome, ...], ...]
    draws: Draws
    """Bootstrap samples of the tasks, the same ones for every sample of a comparison."""

    @cached_property
    def all(self) -> list[TaskOutcome]:
        """Every outcome."""
        return [outcome for task in self.outcomes for outcome in task]

    @property
    def seeds(self) -> int:
        """How many seeds there are."""
        return len(self.outcomes[0])

    def sums(self, value: Value) -> list[float]:
        """Return a value for each task, summed over its seeds."""
        return [float(sum(value(outcome) for outcome in task)) for task in self.outcomes]

    def estimate(self, measure: Measure) -> Estimate:
        """Return the value of a measure and its interval."""
        above, below = self.sums(measure.above), self.sums(measure.below)
        return estimate(ratio(above, below), ratio_samples(above, below, self.draws))

    def share(self, value: Value) -> Estimate:
        """Return a share of all tasks and its interval."""
        return self.estimate(Measure("", "", "share", value))


def estimate(value: float, samples: Numbers) -> Estimate:
    """Return a value and the interval of its bootstrap samples."""
    low, high = percentile_interval(samples, LEVEL) or (float("nan"), float("nan"))
    return Estimate(value=_number(value), low=_number(low), high=_number(high))


def draw_tasks(tasks: int, samples: int) -> Draws:
    """Return the bootstrap samples of a comparison."""
    return cluster_draws(tasks, samples, derive_seed(0, "compare", "tasks"))


def estimates_of(sample: Sample, *, fresh: bool) -> dict[str, Estimate]:
    """Return every measure; those that need fresh rollouts only where there are some."""
    return {measure.id: sample.estimate(measure) for measure in MEASURES if fresh or not measure.fresh}


def curve_of(sample: Sample, cap: int, *, fresh: bool) -> list[CurvePoint]:
    """Return the shares at equal spend."""
    budgets = sorted({-(-cap * point // CURVE_POINTS) for point in range(1, CURVE_POINTS + 1)})
    return [
        CurvePoint(
            budget=budget,
            counted=sample.share(lambda task, budget=budget: task.within(budget)),
            fresh=sample.share(lambda task, budget=budget: task.within(budget) and bool(task.fresh)) if fresh else None,
        )
        for budget in budgets
    ]


def differences_of(policy: str, samples: dict[str, Sample], reference: str, *, fresh: bool) -> list[Difference]:
    """Return every designer against the reference, measure by measure."""
    others = [name for name in samples if name != reference]
    found: list[Difference] = []
    for measure in MEASURES:
        if measure.tested and (fresh or not measure.fresh):
            of_measure = [
                _difference(policy, name, samples[name], reference, samples[reference], measure) for name in others
            ]
            adjusted = holm([entry.p for entry in of_measure])
            found += [entry.model_copy(update={"p_adjusted": p}) for entry, p in zip(of_measure, adjusted, strict=True)]
    return found


def _difference(
    policy: str, designer: str, sample: Sample, reference: str, other: Sample, measure: Measure
) -> Difference:
    mine = (sample.sums(measure.above), sample.sums(measure.below))
    theirs = (other.sums(measure.above), other.sums(measure.below))
    value = ratio(*mine) - ratio(*theirs)
    samples = ratio_samples(*mine, sample.draws) - ratio_samples(*theirs, other.draws)
    seed = derive_seed(0, "compare", "test", policy, designer, reference, measure.id)
    each = [a / b - c / d for a, b, c, d in zip(*mine, *theirs, strict=True)]
    higher, lower = sum(entry > 0 for entry in each), sum(entry < 0 for entry in each)
    if mine[1] == theirs[1]:
        p = sign_flip_test([a - b for a, b in zip(mine[0], theirs[0], strict=True)], seed)
    else:
        p = swap_test(mine, theirs, seed)
    return Difference(
        policy=policy,
        designer=designer,
        reference=reference,
        measure=measure.id,
        difference=estimate(value, samples),
        p=p,
        p_adjusted=p,
        higher=higher,
        lower=lower,
        mcnemar=mcnemar_test(higher, lower) if sample.seeds == 1 and _yes_or_no(mine, theirs) else None,
    )


def _yes_or_no(*sides: tuple[Sequence[float], Sequence[float]]) -> bool:
    return all(set(above) <= {0.0, 1.0} and set(below) == {1.0} for above, below in sides)


def _number(value: float) -> float | None:
    """Return a number that JSON can hold, or None."""
    return value if isfinite(value) and not isnan(value) else None
