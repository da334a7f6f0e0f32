"""A rigging run as the report reads it: configuration, task results and the null beside them."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import TypeVar

from pydantic import BaseModel, JsonValue, ValidationError

from envharness.core.errors import StoreError
from envharness.core.messages import one_line
from envharness.core.types import JsonDict
from envharness.report.numbers import Band, Figures, summarise
from envharness.rigger.records import NULL_DESIGNER, RigSummary, TaskResult
from envharness.rigger.results import DESIGNER_MODEL, RESULT, SUMMARY, count_rollouts
from envharness.store.database import LIVE, RunStore

Model = TypeVar("Model", bound=BaseModel)


@dataclass(frozen=True)
class DesignerRun:
    """What one designer did in this run."""

    designer: str
    results: tuple[TaskResult, ...]
    summary: RigSummary | None
    """The run's own account; None where the run has not finished."""
    figures: Figures


@dataclass(frozen=True)
class Run:
    """Everything the report shows but the episodes, which are fetched when needed."""

    config: JsonDict
    band: Band
    environment: str
    policy: str
    main: DesignerRun
    null: DesignerRun | None
    """The identity designer on the same tasks; None where it was not run, or is itself what is reported."""
    store: RunStore
    designer_model: str = ""
    """Which model designs, and whether it is the policy's own; empty where none does."""

    @property
    def finished(self) -> bool:
        """Whether every designer came to its end."""
        return self.main.summary is not None and (self.null is None or self.null.summary is not None)

    @property
    def spend(self) -> tuple[int, int, float | None]:
        """Rollouts of all designers, the invalid ones among them, and seconds; None where the run has not finished.

        Designers start from the same baselines, which are counted once.
        """
        runs = [run for run in (self.main, self.null) if run is not None]
        asked, lost = count_rollouts([result for run in runs for result in run.results])
        # The time in each summary is the whole run's.
        seconds = max((run.summary.seconds for run in runs if run.summary is not None), default=None)
        return (asked, lost, seconds if self.finished else None)


def load_run(store: RunStore) -> Run:
    """Read a run. Raises StoreError where it holds no task result yet, or one of another form."""
    config = store.config
    band = _band(config)
    results = _results(store)
    if not results:
        raise StoreError("this run holds no finished task yet: nothing to report; go on with `envharness rig` first")
    summaries = {key: _parse(RigSummary, body, f"{SUMMARY} {key!r}") for key, body in _records(store, SUMMARY)}
    runs = {
        designer: DesignerRun(designer, tuple(found), summaries.get(designer), summarise(found, band))
        for designer, found in results.items()
    }
    main = runs[_main_designer(config, list(runs))]
    null = runs.get(NULL_DESIGNER)
    return Run(
        config=config,
        band=band,
        environment=_id(config.get("environment")),
        policy=_id(config.get("policy")),
        main=main,
        null=null if null is not main else None,
        store=store,
        designer_model=_designer_model(store, main.designer),
    )


def _designer_model(store: RunStore, designer: str) -> str:
    body = store.get_record(DESIGNER_MODEL, designer)
    if body is None:
        return ""
    whose = "the policy's own" if body.get("policys_own") else "not the policy's"
    return f"{body.get('model')}, {whose}"


def _records(store: RunStore, kind: str) -> Iterator[tuple[str, JsonDict]]:
    """Yield the records of a kind, those that may still be replaced (invalid tasks, unfinished figures) first."""
    yield from store.records(f"{LIVE}{kind}")
    yield from store.records(kind)


def _results(store: RunStore) -> dict[str, list[TaskResult]]:
    """Read the task results by designer, in order of tasks; a decided one replaces an earlier invalid one."""
    found: dict[str, dict[str, TaskResult]] = {}
    for key, body in _records(store, RESULT):
        # The key is designer/task, and a task's id may itself hold slashes.
        designer, _, task = key.partition("/")
        found.setdefault(designer, {})[task] = _parse(TaskResult, body, f"{RESULT} {key!r}")
    return {designer: [results[task] for task in sorted(results)] for designer, results in found.items()}


def _main_designer(config: JsonDict, designers: list[str]) -> str:
    configured = _id(config.get("designer"))
    if configured in designers:
        return configured
    return next((designer for designer in designers if designer != NULL_DESIGNER), designers[0])


def _band(config: JsonDict) -> Band:
    """Read the band of the configuration; the method's where it names none."""
    value = config.get("band")
    if isinstance(value, list) and len(value) == 2:  # noqa: PLR2004  low and high
        low, high = value
        if isinstance(low, int | float) and isinstance(high, int | float):
            return Band(float(low), float(high))
    return Band()


def _id(value: JsonValue) -> str:
    """Return the id of `{id, options}` or of a plain id; empty where there is none."""
    if isinstance(value, dict):
        value = value.get("id")
    return value if isinstance(value, str) else ""


def _parse(model: type[Model], body: JsonDict, what: str) -> Model:
    try:
        return model.model_validate(body)
    except ValidationError as error:
        raise StoreError(f"{what} of this run cannot be read: {one_line(error)}") from error
