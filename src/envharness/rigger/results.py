"""The results of a run in its store: task results and figures, decided ones and those that may still be replaced."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TypeVar, cast

from pydantic import BaseModel, ValidationError

from envharness.core.errors import StoreError
from envharness.core.messages import one_line
from envharness.core.types import JsonDict
from envharness.rigger.records import RigSummary, TaskResult
from envharness.rollouts.ledger import Budget
from envharness.store.database import LIVE, RunStore

Model = TypeVar("Model", bound=BaseModel)

RESULT = "task_result"
SUMMARY = "summary"
DESIGNER_MODEL = "designer_model"
"""The kind of record that says which model a designer asks."""
BUDGET = f"{LIVE}budget"
"""The kind of record that says what budget the last start of the run was given."""


def put_result(store: RunStore, designer: str, result: TaskResult) -> None:
    """Keep a task's result. An `invalid` one is no decision: it may be replaced when the run is started again."""
    kind = f"{LIVE}{RESULT}" if result.status == "invalid" else RESULT
    store.put_record(kind, f"{designer}/{result.task}", cast("JsonDict", result.model_dump(mode="json")))


def decided_tasks(store: RunStore) -> set[tuple[str, str]]:
    """Return (designer, task) for every result that is a decision, and so will not be replaced."""
    # A designer's id holds no slash; a task's may.
    return {(designer, task) for designer, _, task in (key.partition("/") for key in store.record_keys(RESULT))}


def load_all_results(store: RunStore) -> dict[str, list[TaskResult]]:
    """Return the results so far by designer, each in order of tasks. Raises StoreError where one is damaged.

    A decided result replaces an invalid one of an earlier start.
    """
    found: dict[str, dict[str, TaskResult]] = {}
    for key, body in _records(store, RESULT):
        # The key is designer/task, and a task's id may itself hold slashes.
        designer, _, task = key.partition("/")
        found.setdefault(designer, {})[task] = _read(TaskResult, body, f"the result {key!r}")
    return {designer: [results[task] for task in sorted(results)] for designer, results in found.items()}


def load_results(store: RunStore, designer: str) -> list[TaskResult]:
    """Return the results of one designer so far, in order of tasks; see `load_all_results`."""
    return load_all_results(store).get(designer, [])


def put_summary(store: RunStore, summary: RigSummary, *, final: bool) -> None:
    """Keep the figures; `final` is False where a task is still undecided."""
    kind = SUMMARY if final else f"{LIVE}{SUMMARY}"
    store.put_record(kind, summary.designer, cast("JsonDict", summary.model_dump(mode="json")))


def load_summary(store: RunStore, designer: str) -> RigSummary | None:
    """Return the figures of a designer, or None where the run has not come to them. Raises StoreError, as above."""
    body = store.get_record(SUMMARY, designer) or store.get_record(f"{LIVE}{SUMMARY}", designer)
    return None if body is None else _read(RigSummary, body, f"the summary {designer!r}")


def put_budget(store: RunStore, budget: Budget) -> None:
    """Note the budget of this start, for readers. It may differ from start to start, and decides nothing."""
    store.put_record(BUDGET, "run", cast("JsonDict", budget.model_dump(mode="json")))


def load_budget(store: RunStore) -> Budget | None:
    """Return the budget of the last start, or None where none was noted. Raises StoreError, as above."""
    body = store.get_record(BUDGET, "run")
    return None if body is None else _read(Budget, body, "the budget")


def _records(store: RunStore, kind: str) -> Iterator[tuple[str, JsonDict]]:
    """Yield the records of a kind, those that may still be replaced first."""
    yield from store.records(f"{LIVE}{kind}")
    yield from store.records(kind)


def _read(model: type[Model], body: JsonDict, what: str) -> Model:
    try:
        return model.model_validate(body)
    except ValidationError as error:
        raise StoreError(f"{what} of this run is damaged: {one_line(error)}") from error
