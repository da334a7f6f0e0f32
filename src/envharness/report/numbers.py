"""The figures of a run, computed from its task results: shares in band with intervals, and the flaws found."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import groupby
from math import comb, sqrt

from envharness.rigger.records import Measurement, Round, TaskResult
from envharness.rigger.results import count_rollouts
from envharness.rigger.statistics import in_band

CONFIDENCE_Z = 1.959963984540054
"""Two-sided 95 %."""


@dataclass(frozen=True)
class Band:
    """The success rates aimed at, both ends included."""

    low: float = 0.4
    high: float = 0.6

    def holds(self, measurement: Measurement | None) -> bool:
        """Whether the measured rate lies in the band. An incomplete measurement never does."""
        return measurement is not None and in_band(measurement, (self.low, self.high))

    def ceiling(self, rollouts: int) -> float:
        """Return how likely a task won exactly half the time shows in band by `rollouts` rollouts, 0 to 1."""
        inside = (wins for wins in range(rollouts + 1) if rollouts and self.low <= wins / rollouts <= self.high)
        return sum(comb(rollouts, wins) for wins in inside) / 2**rollouts


@dataclass(frozen=True)
class Share:
    """So many of all tasks of the run."""

    count: int
    total: int

    @property
    def value(self) -> float:
        """The share, 0 to 1; 0 where there are no tasks."""
        return self.count / self.total if self.total else 0.0

    @property
    def interval(self) -> tuple[float, float]:
        """The 95 % Wilson interval of the share."""
        return wilson(self.count, self.total)


@dataclass(frozen=True)
class FlawCount:
    """How often one weakness was found."""

    flaw: str
    tasks: int
    """Tasks diagnosed with it."""
    accepted: int
    """Tasks whose accepted component answers it, whatever their diagnosis names."""
    mean_score: float
    """Mean strength over the tasks where it was looked for, 0 to 1."""


@dataclass(frozen=True)
class Figures:
    """What one designer did to the tasks of a run. Every share is over all of them."""

    tasks: int
    accepted: int
    already_in_band: int
    rejected: int
    invalid: int
    """Tasks that could not be measured."""
    before: Share
    """In band by the rollouts of the baseline."""
    after: Share
    """In band by the rollouts that decided: of the accepted round, or of the baseline where none was accepted."""
    before_fresh: Share | None
    """The base stacks by fresh rollouts; None where none were asked for."""
    remeasured: Share | None
    """The final stacks by fresh rollouts; None where none were asked for."""
    accepted_remeasured: Share | None
    """In band by fresh rollouts among the accepted tasks only; None where none were asked for."""
    deciding_rollouts: int
    """K: rollouts of the largest batch that decided; 0 where nothing was measured."""
    fresh_rollouts: int
    """Fresh rollouts a task; 0 where none were asked for."""
    rollouts: int
    """Rollouts asked for, the fresh ones included."""
    lost: int
    """Those of them that were not valid."""
    flaws: tuple[FlawCount, ...]
    """Every flaw that was looked for, the most frequent first."""


def wilson(successes: int, trials: int, z: float = CONFIDENCE_Z) -> tuple[float, float]:
    """Return the Wilson score interval of a share, within [0, 1]; (0, 1) where there are no trials."""
    if trials == 0:
        return (0.0, 1.0)
    rate = successes / trials
    spread = z * z / trials
    middle = (rate + spread / 2) / (1 + spread)
    half = z * sqrt(rate * (1 - rate) / trials + spread / (4 * trials)) / (1 + spread)
    # Rounding must not push the ends past a share that was really seen.
    return (max(0.0, min(middle - half, rate)), min(1.0, max(middle + half, rate)))


def accepted_round(result: TaskResult) -> Round | None:
    """Return the round whose candidate was accepted, or None."""
    return next((entry for entry in result.rounds if entry.decision == "accept"), None)


def weakness_of(result: TaskResult) -> str:
    """Return the flaw that the accepted component answers, or what the baseline shows where none was accepted.

    Where the designer did not say what its component answers, it is what it was written on. `none` where nothing stands
    out, empty where the task was not diagnosed.
    """
    accepted = accepted_round(result)
    if accepted and accepted.candidate.answers:
        return accepted.candidate.answers
    written_on = accepted.diagnosis if accepted and accepted.diagnosis else result.diagnosis
    return written_on.flaw if written_on else ""


def by_round(result: TaskResult) -> list[list[Round]]:
    """Return the candidates of a task round by round. Those before the last of a round failed a free check, unpaid."""
    return [list(tries) for _, tries in groupby(result.rounds, key=lambda entry: entry.number)]


def deciding_measurement(result: TaskResult) -> Measurement:
    """Return the batch that decided about the task: the accepted round's, or the baseline."""
    accepted = accepted_round(result)
    return accepted.measured if accepted and accepted.measured else result.baseline


def summarise(results: Sequence[TaskResult], band: Band) -> Figures:
    """Compute the figures of one designer's results."""
    statuses = [result.status for result in results]
    accepted = [result for result in results if result.status == "accepted"]
    asked, lost = count_rollouts(results)
    deciding = [deciding_measurement(result) for result in results]
    fresh = [batch for result in results for batch in (result.before, result.remeasured) if batch is not None]
    return Figures(
        tasks=len(results),
        accepted=len(accepted),
        already_in_band=statuses.count("in_band_already"),
        rejected=statuses.count("rejected"),
        invalid=statuses.count("invalid"),
        before=_share([result.baseline for result in results], band),
        after=_share(deciding, band),
        before_fresh=_fresh_share([result.before for result in results], band),
        remeasured=_fresh_share([result.remeasured for result in results], band),
        accepted_remeasured=_fresh_share([result.remeasured for result in accepted], band),
        deciding_rollouts=max((batch.asked for batch in deciding), default=0),
        fresh_rollouts=max((batch.asked for batch in fresh), default=0),
        rollouts=asked,
        lost=lost,
        flaws=count_flaws(results),
    )


def count_flaws(results: Sequence[TaskResult]) -> tuple[FlawCount, ...]:
    """Count every flaw looked for, found or not: by tasks diagnosed, by tasks accepted, by mean score, by name."""
    diagnoses = [result.diagnosis for result in results if result.diagnosis is not None]
    answered = Counter(weakness_of(result) for result in results if result.status == "accepted")
    looked_for = {flaw for diagnosis in diagnoses for flaw in (*diagnosis.scores, diagnosis.flaw)}
    names = (looked_for | set(answered)) - {"none", ""}
    counts: list[FlawCount] = []
    for name in names:
        scores = [diagnosis.scores[name] for diagnosis in diagnoses if name in diagnosis.scores]
        counts.append(
            FlawCount(
                flaw=name,
                tasks=sum(diagnosis.flaw == name for diagnosis in diagnoses),
                accepted=answered[name],
                mean_score=sum(scores) / len(scores) if scores else 0.0,
            )
        )
    return tuple(sorted(counts, key=lambda count: (-count.tasks, -count.accepted, -count.mean_score, count.flaw)))


def _share(batches: Sequence[Measurement | None], band: Band) -> Share:
    return Share(count=sum(band.holds(batch) for batch in batches), total=len(batches))


def _fresh_share(batches: Sequence[Measurement | None], band: Band) -> Share | None:
    """Like `_share`, but None where no task was measured afresh. A task that was not counts as outside."""
    return _share(batches, band) if any(batch is not None for batch in batches) else None
