"""A rigging run as the report reads it: configuration, task results and the null beside them."""

from __future__ import annotations

from dataclasses import dataclass

from pydantic import JsonValue, ValidationError

from envharness.core.errors import ConfigError, StoreError
from envharness.core.policy import PolicySpec
from envharness.core.types import JsonDict
from envharness.report.numbers import Band, Figures, figures_of
from envharness.report.usage import Spending
from envharness.rigger.config import AcceptanceConfig
from envharness.rigger.designers.llm_model import describe_model, policy_model
from envharness.rigger.records import NULL_DESIGNER, RigSummary, TaskResult
from envharness.rigger.results import DESIGNER_MODEL, load_all_results, load_budget, load_summary
from envharness.rigger.summary import count_rollouts
from envharness.rollouts.ledger import read_ledger
from envharness.store.database import RunStore


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
    acceptance: AcceptanceConfig
    environment: str
    policy: str
    main: DesignerRun
    null: DesignerRun | None
    """The identity designer on the same tasks; None where it was not run, or is itself what is reported."""
    store: RunStore
    spending: Spending
    policy_model: str = ""
    """Which model plays; empty where none does, or its configuration is not of this package's form."""
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
        asked, invalid = count_rollouts([result for run in runs for result in run.results])
        # The time in each summary is the whole run's.
        seconds = max((run.summary.seconds for run in runs if run.summary is not None), default=None)
        return (asked, invalid, seconds if self.finished else None)


def load_run(store: RunStore) -> Run:
    """Read a run, however far it has come. Raises StoreError where none was begun, or something in it is damaged."""
    config = store.config
    if not store.command:
        raise StoreError(f"{store.folder} holds no run: nothing was begun in it, or nothing came of what was")
    band = _band(config)
    results = load_all_results(store)
    if not results:
        results = {_id(config.get("designer")): list[TaskResult]()}
    runs = {
        designer: DesignerRun(designer, tuple(found), load_summary(store, designer), figures_of(found, band))
        for designer, found in results.items()
    }
    main = runs[_main_designer(config, list(runs))]
    null = runs.get(NULL_DESIGNER)
    plays, designs = _policy_model(config.get("policy")), _designer_model(store, main.designer)
    models = {role: model for role, model in (("policy", plays), ("designer", designs)) if model}
    return Run(
        config=config,
        band=band,
        acceptance=_acceptance(config),
        environment=_id(config.get("environment")),
        policy=_id(config.get("policy")),
        main=main,
        null=null if null is not main else None,
        store=store,
        spending=Spending(read_ledger(store).by_role(), models, load_budget(store)),
        policy_model=plays,
        designer_model=designs,
    )


def _policy_model(policy: JsonValue) -> str:
    """Return the name of the model in a policy's options; empty where there is none that can be read."""
    try:
        model = policy_model(PolicySpec.model_validate(policy))
    except (ValidationError, ConfigError):
        return ""  # what another package's policy means by `model` is its own affair
    return "" if model is None else describe_model(model)


def _designer_model(store: RunStore, designer: str) -> str:
    body = store.get_record(DESIGNER_MODEL, designer)
    if body is None:
        return ""
    whose = "the policy's own" if body.get("policys_own") else "not the policy's"
    return f"{body.get('model')}, {whose}"


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


def _acceptance(config: JsonDict) -> AcceptanceConfig:
    """Read the rule of acceptance; the method's for a run of a version that had no other, or a later one's."""
    try:
        return AcceptanceConfig.model_validate(config.get("acceptance", {}))
    except ValidationError:
        return AcceptanceConfig()


def _id(value: JsonValue) -> str:
    """Return the id of `{id, options}` or of a plain id; empty where there is none."""
    if isinstance(value, dict):
        value = value.get("id")
    return value if isinstance(value, str) else ""
