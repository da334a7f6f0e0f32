"""The figures that a report shows of one designer: shares in band, tasks by status, and the flaws found."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import groupby
from math import comb

from envharness.rigger.audits import audit_tasks, claimed_share
from envharness.rigger.measurement import in_band
from envharness.rigger.records import Measurement, Round, ShareAudit, TaskResult
from envharness.rigger.summary import (
    Share,
    accepted_round,
    accepted_tasks,
    count_rollouts,
    deciding_measurement,
    fresh_share,
    share_after,
    share_before,
    share_remeasured,
)


@dataclass(frozen=True)
class Band:
    """The success rates aimed at, both ends included."""

    low: float = 0.4
    high: float = 0.6

    @property
    def bounds(self) -> tuple[float, float]:
        """Both ends."""
        return (self.low, self.high)

    def holds(self, measurement: Measurement | None) -> bool:
        """Whether the measured rate lies in the band. An incomplete measurement never does."""
        return measurement is not None and in_band(measurement, self.bounds)

    def ceiling(self, rollouts: int) -> float:
        """Return how likely a task won exactly half the time shows in band by `rollouts` rollouts, 0 to 1."""
        inside = (wins for wins in range(rollouts + 1) if rollouts and self.low <= wins / rollouts <= self.high)
        return sum(comb(rollouts, wins) for wins in inside) / 2**rollouts


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
    deciding_differ: bool
    """Whether some tasks were decided by fewer."""
    fresh_rollouts: int
    """Fresh rollouts a task; 0 where none were asked for."""
    rollouts: int
    """Rollouts asked for, the fresh ones included."""
    invalid_rollouts: int
    """Those of them that were not valid."""
    rollouts_a_task: float
    """Rollouts asked for, without the fresh ones, over all tasks; 0 where there is none."""
    claimed: float | None
    """Mean probability on target with which tasks were accepted; None where the rule believed nothing."""
    audit_accepted: ShareAudit | None
    """What fresh rollouts say of the accepted tasks; None where none were asked for, or nothing was accepted."""
    audit_all: ShareAudit | None
    """The same of all tasks."""

    @property
    def deciding(self) -> str:
        """The rollouts that decided, in words: `5`, or `up to 45` where they differ from task to task."""
        return f"{'up to ' if self.deciding_differ else ''}{self.deciding_rollouts}"

    flaws: tuple[FlawCount, ...]
    """Every flaw that was looked for, the most frequent first."""


def flaw_of(result: TaskResult) -> str:
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
    return [list(attempts) for _, attempts in groupby(result.rounds, key=lambda entry: entry.number)]


def figures_of(results: Sequence[TaskResult], band: Band) -> Figures:
    """Compute the figures of one designer's results."""
    statuses = [result.status for result in results]
    accepted = accepted_tasks(results)
    asked, invalid = count_rollouts(results)
    decided, _ = count_rollouts(results, remeasured=False)
    deciding = [deciding_measurement(result) for result in results]
    fresh = [batch for result in results for batch in (result.before, result.remeasured) if batch is not None]
    return Figures(
        tasks=len(results),
        accepted=len(accepted),
        already_in_band=statuses.count("in_band_already"),
        rejected=statuses.count("rejected"),
        invalid=statuses.count("invalid"),
        before=share_before(results, band.bounds),
        after=share_after(results, band.bounds),
        before_fresh=fresh_share([result.before for result in results], band.bounds),
        remeasured=share_remeasured(results, band.bounds),
        accepted_remeasured=share_remeasured(accepted, band.bounds),
        deciding_rollouts=max((batch.asked for batch in deciding), default=0),
        deciding_differ=len({batch.asked for batch in deciding}) > 1,
        fresh_rollouts=max((batch.asked for batch in fresh), default=0),
        rollouts=asked,
        invalid_rollouts=invalid,
        rollouts_a_task=decided / len(results) if results else 0.0,
        claimed=claimed_share(results),
        audit_accepted=audit_tasks(accepted, band.bounds),
        audit_all=audit_tasks(results, band.bounds),
        flaws=count_flaws(results),
    )


def count_flaws(results: Sequence[TaskResult]) -> tuple[FlawCount, ...]:
    """Count every flaw looked for, found or not: by tasks diagnosed, by tasks accepted, by mean score, by name."""
    diagnoses = [result.diagnosis for result in results if result.diagnosis is not None]
    answered = Counter(flaw_of(result) for result in results if result.status == "accepted")
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
