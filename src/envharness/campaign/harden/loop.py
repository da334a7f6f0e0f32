"""Hardening's public function: play a suite, derive its variants, play those that can tell something, keep it all."""

from __future__ import annotations

import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from envharness.campaign.harden.config import HardenConfig
from envharness.campaign.harden.derive import Derived, derive
from envharness.campaign.harden.matrix import row_of
from envharness.campaign.harden.plan import CasePlanner, baseline_plan
from envharness.campaign.harden.records import CaseResult, HardenResult, Tally, TaskBaseline
from envharness.campaign.harden.results import put_result
from envharness.campaign.harden.suite import Case, PlayedTask, Win, distinct
from envharness.campaign.harden.tally import tally
from envharness.components.stack_file import save_stack
from envharness.core.labels import labelled, run_id
from envharness.core.spec import StackSpec
from envharness.llm.make import client_for
from envharness.rigger.calls import ModelCalls
from envharness.rigger.driver import Driver, Result
from envharness.rigger.observe import TaskView, policy_wins, require_reversible, view_task
from envharness.rigger.requests import Work
from envharness.rigger.stacks import FOLDER, base_stacks, file_name
from envharness.rollouts.engine import Engine
from envharness.rollouts.interrupts import StopRequest
from envharness.rollouts.ledger import Budget, put_ledger
from envharness.rollouts.progress import Progress, SilentProgress
from envharness.statistics.intervals import wilson
from envharness.store.database import RunStore


def harden(
    config: HardenConfig,
    *,
    store: RunStore,
    engine: Engine,
    progress: Progress | None = None,
    unsafe_hooks: bool = False,
    budget: Budget | None = None,
    stop: StopRequest | None = None,
) -> HardenResult:
    """Play every task as it is and in every variant, and return the dependency matrix.

    Each episode is in `store` before a decision rests on it, and what is there is not played again. Stacks that are
    known to be winnable are written to the run folder. The other arguments, and what is raised, are those of `rig`.
    """
    started = time.monotonic()
    config.policy.check()
    views = _views(config)
    run = _Run(config, store, engine, progress or SilentProgress(), unsafe_hooks, budget or Budget(), stop)
    tasks = run.baselines(views)
    derived = derive(tasks, config)
    cases = [case for variant in derived.variants for case in variant]
    found = run.play(cases)
    found |= run.play_again(cases, found)
    result = _result(config, tasks, derived, found, seconds=time.monotonic() - started, folder=store.folder)
    put_result(store, result)
    export(result, store.folder)
    return result


def _views(config: HardenConfig) -> list[TaskView]:
    with StackSpec.environment(config.environment.id, **config.environment.options).build() as env:
        tasks = config.suite.choose_tasks(env.list_tasks())
    stacks = base_stacks(config.suite, tasks)
    views = [view_task(task, stacks[task]) for task in tasks]
    require_reversible(views, insist=config.insist_irreversible)
    return views


@dataclass
class _Run:
    """What all phases of a run share."""

    config: HardenConfig
    store: RunStore
    engine: Engine
    progress: Progress
    unsafe_hooks: bool
    budget: Budget
    stop: StopRequest | None
    _stop: StopRequest = field(init=False)

    def __post_init__(self) -> None:
        self._stop = self.stop or StopRequest()

    def baselines(self, views: Sequence[TaskView]) -> list[PlayedTask]:
        """Play every task as it is; in order of tasks."""
        plans = [(view.task, baseline_plan(view, self.config)) for view in views]
        found = dict(self._drive("baseline", plans))
        return [found[view.task] for view in views]

    def play(self, cases: Sequence[Case], wins: dict[str, tuple[Win, ...]] | None = None) -> dict[str, CaseResult]:
        """Play cases; by name."""
        plans = [(case.name, CasePlanner(case, self.config, self.unsafe_hooks, wins or {}).plan()) for case in cases]
        return dict(self._drive("variants", plans))

    def play_again(self, cases: Sequence[Case], found: dict[str, CaseResult]) -> dict[str, CaseResult]:
        """Try once more what counts as unsolvable, with the wins that other variants brought to light."""
        wins = _wins_found(cases, found, self.store)
        again = [case for case in cases if found[case.name].status == "unsolvable" and wins.get(case.task.task)]
        return self.play(again, wins) if again else {}

    def _drive(self, activity: str, plans: list[tuple[str, Work[Result]]]) -> Iterator[tuple[str, Result]]:
        self.progress.begin(activity, len(plans))
        calls = ModelCalls(client_for)
        driver = Driver[Result](
            self.store,
            self.engine,
            calls,
            budget=self.budget,
            stop=self._stop,
            on_episode=lambda phase, _: self.progress.advance(0, note=phase),
            on_silence=self.progress.say,
        )
        try:
            with labelled(run_id(self.store.folder)):
                for name, result in driver.run(plans):
                    self.progress.advance(1)
                    yield name, result
        finally:
            calls.close()
            put_ledger(self.store, driver.ledger)


def _wins_found(cases: Sequence[Case], found: dict[str, CaseResult], store: RunStore) -> dict[str, tuple[Win, ...]]:
    """Return the wins that rollouts of variants with the same start brought to light, where a variant has none yet.

    A variant that only refuses or hides lets through what it does not refuse, so what won in it wins without it.
    """
    stuck = {result.task for result in found.values() if result.status == "unsolvable"}
    wins: dict[str, list[Win]] = {}
    for case in cases:
        result = found[case.name]
        same_start = case.partner is None and not case.candidate.in_env_actions
        if same_start and result.task in stuck and result.played.won:
            episodes = [episode for key in result.episodes if (episode := store.get_episode(key)) is not None]
            wins.setdefault(case.task.task, []).extend(policy_wins(episodes))
    return {task: tuple(distinct(entries)) for task, entries in wins.items()}


def _result(
    config: HardenConfig,
    tasks: Sequence[PlayedTask],
    derived: Derived,
    found: dict[str, CaseResult],
    *,
    seconds: float,
    folder: Path,
) -> HardenResult:
    baselines = [TaskBaseline(task=task.task, tally=tally(task.episodes), episodes=task.keys) for task in tasks]
    total = sum((entry.tally for entry in baselines), Tally())
    rows = [row_of(cases[0].variant, [found[case.name] for case in cases]) for cases in derived.variants]
    results = [found[case.name] for cases in derived.variants for case in cases]
    everything = sum((case.played for case in results), total)
    return HardenResult(
        environment=config.environment.id,
        policy=config.policy.id,
        seed=config.seed,
        rollouts_each=config.rollouts,
        tasks=baselines,
        baseline=total,
        baseline_interval=wilson(total.won, total.valid),
        rows=rows,
        cases=results,
        left_out=derived.left_out,
        rollouts=everything.asked,
        invalid=everything.asked - everything.valid,
        seconds=seconds,
        run_dir=str(folder),
    )


def export(result: HardenResult, folder: Path) -> list[Path]:
    """Write each stack that is known to be winnable, one folder a variant, one file a task. Returns the files."""
    written: list[Path] = []
    for case in result.cases:
        if case.winnable and case.stack is not None:
            path = folder / FOLDER / file_name(case.variant) / f"{file_name(case.task)}.json"
            save_stack(case.stack, path)
            written.append(path)
    return written
