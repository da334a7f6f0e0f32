"""The audit of a run: what its fresh rollouts say about the share truly in band, against what its rule claimed."""

from __future__ import annotations

from collections.abc import Sequence

from envharness.rigger.config import AcceptanceConfig
from envharness.rigger.records import ShareAudit, TaskResult


def audit_tasks(results: Sequence[TaskResult], band: tuple[float, float]) -> ShareAudit | None:
    """Audit the final stacks by their re-measurement, or return None where none was re-measured.

    A task without a single valid fresh rollout counts as outside the band.
    """
    fresh = [result.remeasured for result in results if result.remeasured and result.remeasured.valid]
    if not fresh:
        return None
    from envharness.statistics.audit import audit  # here, because it brings numpy, which most commands do without

    found = audit([(batch.successes, batch.valid) for batch in fresh], band)
    if found is None:
        return None
    seen = len(fresh) / len(results)
    return ShareAudit(
        share=found.share * seen,
        low=found.low * seen,
        high=found.high * seen,
        ceiling=found.ceiling,
        attainable=found.attainable,
        tasks=len(results),
        rollouts=found.rollouts,
    )


def claimed_share(results: Sequence[TaskResult]) -> float | None:
    """Return the mean probability with which candidates were accepted; None where the rule believed nothing."""
    beliefs = [
        entry.belief.probability
        for result in results
        for entry in result.rounds
        if entry.decision == "accept" and entry.belief is not None
    ]
    return sum(beliefs) / len(beliefs) if beliefs else None


def suggested_threshold(
    acceptance: AcceptanceConfig | None, claimed: float | None, audited: ShareAudit | None
) -> float | None:
    """Return the threshold that the audit asks of a further run; None where there is nothing to hold it against."""
    if acceptance is None or acceptance.rule == "empirical" or claimed is None or audited is None:
        return None
    from envharness.statistics.audit import Audit, raised

    shown = Audit(**audited.model_dump(), in_band=())
    return raised(acceptance.threshold, claimed=claimed, audited=shown)
