"""EnvRigger's public function: rig every task of a configuration, keep everything, return the figures."""

from __future__ import annotations

import time
from collections.abc import Iterator

from envharness.core.labels import labelled, run_id
from envharness.core.policy import PolicySpec
from envharness.core.spec import StackSpec
from envharness.llm.make import client_for, require_usable
from envharness.rigger.calls import ClientMaker, ModelCalls
from envharness.rigger.config import DesignerConfig, RigConfig
from envharness.rigger.designers.base import AnyDesigner, Designer, build_designer
from envharness.rigger.designers.llm_model import describe_model, require_prices, same_model
from envharness.rigger.driver import Driver
from envharness.rigger.objectives import SuccessBand
from envharness.rigger.observe import TaskView, require_reversible, view_task
from envharness.rigger.plan import TaskPlan, TaskPlanner
from envharness.rigger.records import NULL_DESIGNER, RigSummary, TaskResult
from envharness.rigger.results import DESIGNER_MODEL, decided_tasks, load_results, put_result, put_summary
from envharness.rigger.stacks import base_stacks, export_stacks
from envharness.rigger.summary import summarise
from envharness.rollouts.engine import Engine
from envharness.rollouts.interrupts import StopRequest
from envharness.rollouts.ledger import Budget, put_ledger
from envharness.rollouts.progress import Progress, SilentProgress
from envharness.store.database import RunStore


def rig(
    config: RigConfig,
    *,
    store: RunStore,
    engine: Engine,
    progress: Progress | None = None,
    unsafe_hooks: bool = False,
    make_client: ClientMaker = client_for,
    budget: Budget | None = None,
    stop: StopRequest | None = None,
) -> RigSummary:
    """Rig every task, with the null beside it, and return the figures.

    Each episode and each answer of a designer's model is in `store` before a decision rests on it; what is there
    already is not run again, so a run that was killed goes on. Accepted stacks are exported to the run folder.

    `unsafe_hooks` runs the hooks of the free checks without confinement: give it only where the engine was made with
    it. `budget` limits what model calls may use, over all starts of the run; it may be raised from one to the next.
    Once `stop` is asked for, what is in flight is finished and kept, and the signal that asked is raised.
    `make_client` turns a designer's model configuration into the client that is asked. Raises ConfigError for
    tasks, stacks or an irreversible environment that cannot be used, what the construction of designer, policy or
    environment raises, ProviderRefusedError or BudgetExhaustedError where a model's endpoint ends the run, and
    PolicyError where nobody answers the policy at all.
    """
    started = time.monotonic()
    config.check_policy()
    budget = budget or Budget()
    designers = _designers(config, store, budget)
    tasks = _tasks(config)
    decided = {(designer.id, task) for designer in designers for task in tasks} & decided_tasks(store)
    stacks = base_stacks(config, tasks)
    # What is decided needs no plan, and so no environment either.
    views = [view_task(task, stacks[task]) for task in tasks if any((d.id, task) not in decided for d in designers)]
    require_reversible(views, insist=config.insist_irreversible)
    progress = progress or SilentProgress()
    progress.begin("tasks", len(tasks) * len(designers))
    progress.advance(len(decided))
    calls = ModelCalls(make_client)
    driver = Driver[TaskResult](
        store,
        engine,
        calls,
        budget=budget,
        stop=stop or StopRequest(),
        on_episode=lambda phase, _: progress.advance(0, note=phase),
        on_silence=progress.say,
    )
    try:
        with labelled(run_id(store.folder)):
            for name, result in driver.run(_plans(config, designers, views, decided, unsafe_hooks=unsafe_hooks)):
                put_result(store, name, result)
                progress.advance(1)
                progress.say(f"{name} {result.task}: {result.status}, {result.reason}")
    finally:
        calls.close()
        put_ledger(store, driver.ledger)
    return _finish(config, designers, store, time.monotonic() - started)


def _designers(config: RigConfig, store: RunStore, budget: Budget) -> list[DesignerConfig]:
    """Return the run's designers, the null among them, once each can be made and asked."""
    designers = [config.designer]
    if config.null and config.designer.id != NULL_DESIGNER:
        designers.append(DesignerConfig(id=NULL_DESIGNER))
    for designer in designers:
        built = build_designer(designer, config.policy)
        if budget.money is not None:
            require_prices(config.policy, None if isinstance(built, Designer) else built.model)
        _note_model(store, designer, built, config.policy)
    return designers


def _tasks(config: RigConfig) -> list[str]:
    """Choose the tasks. The first stack built lists them."""
    with StackSpec.environment(config.environment.id, **config.environment.options).build() as env:
        return config.choose_tasks(env.list_tasks())


def _plans(
    config: RigConfig,
    designers: list[DesignerConfig],
    views: list[TaskView],
    decided: set[tuple[str, str]],
    *,
    unsafe_hooks: bool,
) -> Iterator[tuple[str, TaskPlan]]:
    """Plan what is not decided yet. A decided task would come to the same result from the same stored episodes."""
    objective = SuccessBand(*config.band)
    for view in views:
        for designer in designers:
            if (designer.id, view.task) in decided:
                continue
            planner = TaskPlanner(
                view=view,
                config=config,
                objective=objective,
                designer_id=designer.id,
                designer=build_designer(designer, config.policy),
                unsafe_hooks=unsafe_hooks,
            )
            yield designer.id, planner.plan()


def _note_model(store: RunStore, config: DesignerConfig, designer: AnyDesigner, policy: PolicySpec) -> None:
    """Write down which model designs, and whether it is the policy's own, for the report."""
    if not isinstance(designer, Designer):
        require_usable(designer.model)
        own = same_model(designer.model, policy)
        store.put_record(DESIGNER_MODEL, config.id, {"model": describe_model(designer.model), "policys_own": own})


def _finish(config: RigConfig, designers: list[DesignerConfig], store: RunStore, seconds: float) -> RigSummary:
    """Sum up, keep the figures of each designer, export the accepted stacks."""
    results: dict[str, list[TaskResult]] = {d.id: load_results(store, d.id) for d in designers}
    null = results.get(NULL_DESIGNER, [])
    summaries = {
        name: summarise(found, null, band=config.band, designer=name, seconds=seconds, run_dir=str(store.folder))
        for name, found in results.items()
    }
    for name, summary in summaries.items():
        put_summary(store, summary, final=all(result.status != "invalid" for result in results[name]))
    export_stacks(results[config.designer.id], store.folder)
    return summaries[config.designer.id]
