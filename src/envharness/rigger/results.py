"""The results of a run in its store, and the run's figures. Every share is over all tasks."""

from __future__ import annotations

from collections.abc import Sequence
from typing import cast

from pydantic import ValidationError

from envharness.core.errors import StoreError
from envharness.core.messages import one_line
from envharness.core.types import JsonDict
from envharness.rigger.records import Measurement, RigSummary, TaskResult
from envharness.rigger.statistics import in_band
from envharness.store.database import LIVE, RunStore

RESULT = "task_result"
SUMMARY = "summary"
DESIGNER_MODEL = "designer_model"
"""The kind of record that says which model a designer asks."""


def put_result(store: RunStore, designer: str, result: TaskResult) -> None:
    """Keep a task's result. An `invalid` one is no decision: it may be replaced when the run is started again."""
    kind = f"{LIVE}{RESULT}" if result.status == "invalid" else RESULT
    store.put_record(kind, f"{designer}/{result.task}", cast("JsonDict", result.model_dump(mode="json")))


def decided_tasks(store: RunStore) -> set[tuple[str, str]]:
    """Return (designer, task) for every result that is a decision, and so will not be replaced."""
    # A designer's id holds no slash; a task's may.
    return {(designer, task) for designer, _, task in (key.partition("/") for key in store.record_keys(RESULT))}


def load_results(store: RunStore, designer: str) -> list[TaskResult]:
    """Return the results of a designer so far, by task; a decided one replaces an invalid one of an earlier start."""
    prefix = f"{designer}/"
    found: dict[str, TaskResult] = {}
    for kind in (f"{LIVE}{RESULT}", RESULT):
        for key, body in store.records(kind):
            if key.startswith(prefix):
                found[key] = _read_result(key, body)
    return [found[key] for key in sorted(found)]


def _read_result(key: str, body: JsonDict) -> TaskResult:
    try:
        return TaskResult.model_validate(body)
    except ValidationError as error:
        raise StoreError(f"the result {key!r} of this run is damaged: {one_line(error)}") from error


def put_summary(store: RunStore, summary: RigSummary, *, final: bool) -> None:
    """Keep the figures; `final` is False where a task is still undecided."""
    kind = SUMMARY if final else f"{LIVE}{SUMMARY}"
    store.put_record(kind, summary.designer, cast("JsonDict", summary.model_dump(mode="json")))


def load_summary(store: RunStore, designer: str) -> RigSummary | None:
    """Return the figures of a designer, or None where the run has not come to them."""
    body = store.get_record(SUMMARY, designer) or store.get_record(f"{LIVE}{SUMMARY}", designer)
    return None if body is None else RigSummary.model_validate(body)


def share_before(results: Sequence[TaskResult], band: tuple[float, float]) -> float:
    """Return the share of tasks whose baseline is in the band."""
    return _share([in_band(result.baseline, band) for result in results])


def share_after(results: Sequence[TaskResult]) -> float:
    """Return the share in the band as the method counts it: by the K rollouts that decided."""
    return _share([result.status in {"accepted", "in_band_already"} for result in results])


def share_remeasured(results: Sequence[TaskResult], band: tuple[float, float]) -> float | None:
    """Return the share in the band by fresh rollouts, or None where none were asked for."""
    if all(result.remeasured is None for result in results):
        return None
    return _share([result.remeasured is not None and in_band(result.remeasured, band) for result in results])


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
        in_band_before=share_before(results, band),
        in_band_after=share_after(results),
        in_band_remeasured=share_remeasured(results, band),
        rollouts=rollouts,
        invalid=invalid,
        seconds=seconds,
        run_dir=run_dir,
        designer=designer,
        identity_in_band_after=share_after(null) if null else None,
        identity_in_band_remeasured=share_remeasured(null, band) if null else None,
    )


def count_rollouts(results: Sequence[TaskResult]) -> tuple[int, int]:
    """Return the rollouts asked for and those not valid. A batch that results share, by its episodes, counts once."""
    batches = [batch for result in results for batch in _paid(result)]
    shared = {batch.episodes: batch for batch in batches if batch.episodes}
    counted = [*shared.values(), *(batch for batch in batches if not batch.episodes)]
    return (sum(batch.asked for batch in counted), sum(batch.asked - batch.valid for batch in counted))


def _paid(result: TaskResult) -> list[Measurement]:
    """Return every batch that the policy played for a task; `remeasured` may be `before` itself."""
    rounds = [entry.measured for entry in result.rounds]
    return [batch for batch in (result.baseline, *rounds, result.before, result.remeasured) if batch is not None]


def _share(hits: Sequence[bool]) -> float:
    return sum(hits) / len(hits) if hits else 0.0
