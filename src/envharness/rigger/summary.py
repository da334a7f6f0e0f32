"""The figures of a run: shares of its tasks in the band, and the rollouts asked for. Every share is over all tasks."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from envharness.rigger.audits import audit_tasks, claimed_share, suggested_threshold
from envharness.rigger.config import AcceptanceConfig
from envharness.rigger.measurement import batches_of, in_band, pooled
from envharness.rigger.records import Measurement, RigSummary, Round, TaskResult
from envharness.statistics.intervals import wilson


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


def accepted_round(result: TaskResult) -> Round | None:
    """Return the round whose candidate was accepted, or None."""
    return next((entry for entry in result.rounds if entry.decision == "accept"), None)


def deciding_measurement(result: TaskResult) -> Measurement:
    """Return what decided about the task: the rollouts that accepted its candidate, or the baseline's.

    By the method's rule that is the accepted round's batch; by a rule of probabilities all rollouts of the candidate.
    """
    accepted = accepted_round(result)
    if accepted is None or accepted.measured is None:
        return result.baseline
    return accepted.measured if accepted.belief is None else pooled(batches_of(result.rounds, accepted.candidate))


def share_in_band(batches: Sequence[Measurement | None], band: tuple[float, float]) -> Share:
    """Return how many of the batches lie in the band. One that is missing or incomplete counts as outside."""
    return Share(sum(batch is not None and in_band(batch, band) for batch in batches), len(batches))


def share_before(results: Sequence[TaskResult], band: tuple[float, float]) -> Share:
    """Return the share by the rollouts of the baseline."""
    return share_in_band([result.baseline for result in results], band)


def share_after(results: Sequence[TaskResult], band: tuple[float, float]) -> Share:
    """Return the share as the method counts it: by the K rollouts that decided."""
    return share_in_band([deciding_measurement(result) for result in results], band)


def fresh_share(batches: Sequence[Measurement | None], band: tuple[float, float]) -> Share | None:
    """Return the share by fresh rollouts, or None where no task was measured afresh."""
    return share_in_band(batches, band) if any(batch is not None for batch in batches) else None


def share_remeasured(results: Sequence[TaskResult], band: tuple[float, float]) -> Share | None:
    """Return the share of the final stacks by fresh rollouts, or None where none were asked for."""
    return fresh_share([result.remeasured for result in results], band)


def summarise(
    results: Sequence[TaskResult],
    null: Sequence[TaskResult],
    *,
    band: tuple[float, float],
    designer: str,
    seconds: float,
    run_dir: str,
    acceptance: AcceptanceConfig | None = None,
) -> RigSummary:
    """Return the figures of a run. `null` are the identity designer's results on the same tasks, or empty.

    `acceptance` is the rule that accepted; without it no threshold is suggested.
    """
    rollouts, invalid = count_rollouts(results)
    deciding, _ = count_rollouts(results, remeasured=False)
    claimed, audited = claimed_share(results), audit_tasks(accepted_tasks(results), band)
    return RigSummary(
        tasks=len(results),
        accepted=sum(result.status == "accepted" for result in results),
        in_band_before=share_before(results, band).value,
        in_band_after=share_after(results, band).value,
        in_band_remeasured=_value(share_remeasured(results, band)),
        rollouts=rollouts,
        invalid=invalid,
        seconds=seconds,
        run_dir=run_dir,
        designer=designer,
        identity_in_band_after=share_after(null, band).value if null else None,
        identity_in_band_remeasured=_value(share_remeasured(null, band)),
        rollouts_deciding=deciding,
        rollouts_a_task=deciding / len(results) if results else 0.0,
        claimed=claimed,
        audit_accepted=audited,
        audit_all=audit_tasks(results, band),
        suggested_threshold=suggested_threshold(acceptance, claimed, audited),
    )


def accepted_tasks(results: Sequence[TaskResult]) -> list[TaskResult]:
    """Return the results whose candidate was accepted."""
    return [result for result in results if result.status == "accepted"]


def count_rollouts(results: Sequence[TaskResult], *, remeasured: bool = True) -> tuple[int, int]:
    """Return the rollouts asked for and those not valid. A batch that results share, by its episodes, counts once.

    `remeasured` says whether the fresh rollouts that decided nothing are counted, too.
    """
    batches = [batch for result in results for batch in _batches(result, remeasured=remeasured)]
    shared = {batch.episodes: batch for batch in batches if batch.episodes}
    counted = [*shared.values(), *(batch for batch in batches if not batch.episodes)]
    return (sum(batch.asked for batch in counted), sum(batch.asked - batch.valid for batch in counted))


def _batches(result: TaskResult, *, remeasured: bool) -> list[Measurement]:
    """Return the batches that the policy played for a task; its last one may be the one before it."""
    fresh = (result.before, result.remeasured) if remeasured else ()
    rounds = [entry.measured for entry in result.rounds]
    return [batch for batch in (result.baseline, *rounds, *fresh) if batch is not None]


def _value(share: Share | None) -> float | None:
    return None if share is None else share.value
