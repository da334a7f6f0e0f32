"""A rigging run as the report reads it: configuration, task results and the null beside them."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TypeVar

from pydantic import BaseModel, JsonValue, ValidationError

from envharness.core.errors import StoreError
from envharness.core.types import JsonDict
from envharness.report.numbers import Band, Figures, summarise
from envharness.rigger.records import RigSummary, TaskResult
from envharness.store.database import RunStore

IDENTITY = "identity"
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

    @property
    def finished(self) -> bool:
        """Whether every designer came to its end."""
        return self.main.summary is not None and (self.null is None or self.null.summary is not None)

    @property
    def spend(self) -> tuple[int, int, float | None]:
        """Rollouts and invalid ones over all designers, and seconds; None where the run has not finished."""
        runs = [run for run in (self.main, self.null) if run is not None]
        summaries = [run.summary for run in runs if run.summary is not None]
        if len(summaries) < len(runs):
            return (sum(run.figures.rollouts for run in runs), sum(run.figures.lost for run in runs), None)
        return (
            sum(summary.rollouts for summary in summaries),
            sum(summary.invalid for summary in summaries),
            sum(summary.seconds for summary in summaries),
        )


def load_run(store: RunStore) -> Run:
    """Read a run. Raises StoreError where it holds no task result yet, or one of another form."""
    config = store.config
    band = _band(config)
    results: dict[str, list[TaskResult]] = {}
    for key, body in store.records("task_result"):
        # The key is designer/task, and a task's id may itself hold slashes.
        results.setdefault(key.split("/", 1)[0], []).append(_parse(TaskResult, body, f"task_result {key!r}"))
    if not results:
        raise StoreError(
            "this run holds no finished task yet, so there is nothing to report; run `envharness rig` first"
        )
    summaries = {key: _parse(RigSummary, body, f"summary {key!r}") for key, body in store.records("summary")}
    runs = {
        designer: DesignerRun(designer, tuple(found), summaries.get(designer), summarise(found, band))
        for designer, found in results.items()
    }
    main = runs[_main_designer(config, list(runs))]
    null = runs.get(IDENTITY)
    return Run(
        config=config,
        band=band,
        environment=_id(config.get("environment")),
        policy=_id(config.get("policy")),
        main=main,
        null=null if null is not main else None,
        reader=reader,
    )


def _main_designer(config: JsonDict, designers: list[str]) -> str:
    configured = _id(config.get("designer"))
    if configured in designers:
        return configured
    return next((designer for designer in designers if designer != IDENTITY), designers[0])


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
        first = error.errors()[0]
        where = ".".join(str(part) for part in first["loc"])
        raise StoreError(f"{what} of this run cannot be read: {where}: {first['msg']}") from error
