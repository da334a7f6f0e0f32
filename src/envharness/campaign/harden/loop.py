"""Hardening's public function: play a suite, derive its variants, play those that can tell something, keep it all."""

from __future__ import annotations

import re
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from envharness.campaign.harden.config import HardenConfig
from envharness.campaign.harden.derive import Derived, derive
from envharness.campaign.harden.matrix import matrix
from envharness.campaign.harden.plan import CasePlanner, baseline_plan
from envharness.campaign.harden.records import CaseResult, HardenResult, Tally, TaskBaseline
from envharness.campaign.harden.results import is_decided, load_case, put_case, put_result
from envharness.campaign.harden.suite import Case, PlayedTask, Win, distinct
from envharness.campaign.harden.tally import outcomes, total
from envharness.components.stack_file import save_stack
from envharness.core.canonical import digest
from envharness.core.labels import labelled, run_id
from envharness.core.spec import StackSpec
from envharness.llm.make import client_for
from envharness.rigger.calls import ModelCalls
from envharness.rigger.designers.llm_model import require_prices
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

FOLDER_DIGITS = 6
"""Hexadecimal digits that tell variants apart whose names are the same once what no file name takes is left out."""


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
    budget = budget or Budget()
    if budget.money is not None:
        require_prices(config.policy, None)
    views = _views(config)
    run = _Run(config, store, engine, progress or SilentProgress(), unsafe_hooks, budget, stop)
    tasks = run.baselines(views)
    derived = derive(tasks, config)
    cases = [case for variant in derived.variants for case in variant]
    # What rests on a part of the baseline may come out otherwise once the rest is there.
    found = run.play(cases, keep=all(len(task.valid) == len(task.episodes) for task in tasks))
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

    def play(self, cases: Sequence[Case], *, keep: bool) -> dict[str, CaseResult]:
        """Play cases; by name. What is unsolvable by the wins known so far is tried again with those that came up.

        `keep` says whether what becomes of a case is a decision, which no later start works out again.
        """
        found = self._pass("first", cases, {}, keep=keep)
        wins = _wins_found(cases, found, self.store)
        again = [case for case in cases if found[case.name].status == "unsolvable" and wins.get(case.task.task)]
        settled = keep and all(is_decided(result) for result in found.values())
        return found | self._pass("second", again, wins, keep=settled)

    def _pass(
        self, name: str, cases: Sequence[Case], wins: dict[str, tuple[Win, ...]], *, keep: bool
    ) -> dict[str, CaseResult]:
        """Play the cases that are not decided yet."""
        found = {case.name: load_case(self.store, f"{name} {case.name}") for case in cases}
        decided = {case: result for case, result in found.items() if result is not None}
        plans = [
            (case.name, CasePlanner(case, self.config, self.unsafe_hooks, wins).plan())
            for case in cases
            if case.name not in decided
        ]
        for case, result in self._drive(f"variants, {name} pass", plans):
            if keep:
                put_case(self.store, f"{name} {case}", result)
            decided[case] = result
        return decided

    def _drive(self, activity: str, plans: list[tuple[str, Work[Result]]]) -> Iterator[tuple[str, Result]]:
        if not plans:
            return
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
    baselines = [
        TaskBaseline(task=task.task, tally=total(outcomes(task.episodes)), episodes=task.keys) for task in tasks
    ]
    suite = sum((entry.tally for entry in baselines), Tally())
    rows = matrix([(cases[0].variant, [found[case.name] for case in cases]) for cases in derived.variants])
    results = [found[case.name] for cases in derived.variants for case in cases]
    everything = sum((case.played for case in results), suite)
    return HardenResult(
        environment=config.environment.id,
        policy=config.policy.id,
        seed=config.seed,
        rollouts_each=config.rollouts,
        tasks=baselines,
        baseline=suite,
        baseline_interval=wilson(suite.won, suite.valid),
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
            path = folder / FOLDER / variant_folder(case.variant) / f"{file_name(case.task)}.json"
            save_stack(case.stack, path)
            written.append(path)
    return written


def variant_folder(variant: str) -> str:
    """Return the folder of a variant's stacks: readable, and another one for every variant."""
    name = file_name(variant)
    plain = re.fullmatch(r"[\w./-]+", variant) is not None
    return name if plain else f"{name}-{digest(variant, FOLDER_DIGITS)}"
