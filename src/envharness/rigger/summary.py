"""The figures of a run: shares of its tasks in the band, and the rollouts asked for. Every share is over all tasks."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from envharness.rigger.measurement import in_band
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
    """Return the batch that decided about the task: the accepted round's, or the baseline."""
    accepted = accepted_round(result)
    return accepted.measured if accepted and accepted.measured else result.baseline


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
) -> RigSummary:
    """Return the figures of a run. `null` are the identity designer's results on the same tasks, or empty."""
    rollouts, invalid = count_rollouts(results)
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
    )


def count_rollouts(results: Sequence[TaskResult]) -> tuple[int, int]:
    """Return the rollouts asked for and those not valid. A batch that results share, by its episodes, counts once."""
    batches = [batch for result in results for batch in _batches(result)]
    shared = {batch.episodes: batch for batch in batches if batch.episodes}
    counted = [*shared.values(), *(batch for batch in batches if not batch.episodes)]
    return (sum(batch.asked for batch in counted), sum(batch.asked - batch.valid for batch in counted))


def _batches(result: TaskResult) -> list[Measurement]:
    """Return every batch that the policy played for a task; `remeasured` may be `before` itself."""
    rounds = [entry.measured for entry in result.rounds]
    return [batch for batch in (result.baseline, *rounds, result.before, result.remeasured) if batch is not None]


def _value(share: Share | None) -> float | None:
    return None if share is None else share.value
