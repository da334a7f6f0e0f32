"""A comparison of designers: run its cells, read their results, and say what they show together."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from pydantic import BaseModel

from envharness.campaign.cells import CellRunner
from envharness.campaign.comparison import Cell, CompareConfig
from envharness.campaign.figures import (
    CurvePoint,
    Difference,
    Estimate,
    Sample,
    curve_of,
    differences_of,
    draw_tasks,
    estimates_of,
)
from envharness.campaign.outcomes import TaskOutcome, batches_of, most_rollouts, outcome_of
from envharness.campaign.variety import Variety, variety_of
from envharness.rigger.results import load_results
from envharness.store.database import RunStore


class DesignerFigures(BaseModel):
    """What one designer did with one policy, over all tasks and seeds."""

    policy: str
    designer: str
    accepted: int
    rollouts: int
    """Paid for until the decisions, fresh ones not among them. The baseline's count for every designer, though they
    were played once for all."""
    invalid: int
    """Tasks that the machinery left undecided."""
    gave_up: int
    """Tasks left outside the band although there were rollouts left to pay for."""
    unspent: int
    """Those rollouts."""
    measures: dict[str, Estimate]
    curve: list[CurvePoint]
    variety: Variety


class Comparison(BaseModel):
    """The result of a comparison. Shares are over all tasks; intervals and tests take the task as the unit."""

    run_dir: str
    environment: str
    tasks: list[str]
    seeds: list[int]
    policies: list[str]
    designers: list[str]
    reference: str
    band: tuple[float, float]
    rollouts: int
    """K: rollouts of a baseline and of a round."""
    budget: int
    """The most rollouts that a task may pay for, the same for every designer."""
    remeasure: int
    """Fresh rollouts a task."""
    played: int
    """Rollouts that were really played, fresh ones among them."""
    resamples: int
    figures: list[DesignerFigures]
    differences: list[Difference]

    def of(self, policy: str) -> list[DesignerFigures]:
        """Return the figures of one policy, designer by designer."""
        return [entry for entry in self.figures if entry.policy == policy]


@dataclass(frozen=True)
class _CellResult:
    """What a cell came to."""

    cell: Cell
    outcomes: dict[str, TaskOutcome]
    played: frozenset[str]


def compare(config: CompareConfig, runner: CellRunner) -> Comparison:
    """Run every cell that is not there yet, and return what they show together. Raises what `rig` raises."""
    cells = runner.run(config)
    return summarise(config, [_read(cell, runner.folder) for cell in cells], str(runner.folder))


def _read(cell: Cell, root: Path) -> _CellResult:
    with RunStore.read(cell.folder(root)) as store:
        results = load_results(store, cell.config.designer.id)
        outcomes = {result.task: outcome_of(result, cell.config, store) for result in results}
        played = frozenset(key for result in results for batch in batches_of(result) for key in batch.episodes)
    return _CellResult(cell, outcomes, played)


def summarise(config: CompareConfig, results: Sequence[_CellResult], run_dir: str) -> Comparison:
    """Return what the results of all cells show together."""
    tasks, base = results[0].cell.tasks, config.base
    draws, fresh, cap = draw_tasks(len(tasks), config.resamples), base.remeasure > 0, most_rollouts(base)
    figures: list[DesignerFigures] = []
    differences: list[Difference] = []
    for policy in config.players:
        samples: dict[str, Sample] = {}
        for name in config.names:
            mine = [entry for entry in results if (entry.cell.policy, entry.cell.designer) == (policy, name)]
            samples[name] = Sample(tuple(tuple(cell.outcomes[task] for cell in mine) for task in tasks), draws)
        varieties = variety_of(
            {name: [o.component for o in sample.all if o.component] for name, sample in samples.items()}
        )
        figures += [
            _figures(policy, name, sample, varieties[name], cap, fresh=fresh) for name, sample in samples.items()
        ]
        differences += differences_of(policy, samples, config.reference, fresh=fresh)
    return Comparison(
        run_dir=run_dir,
        environment=base.environment.id,
        tasks=list(tasks),
        seeds=config.seeds,
        policies=list(config.players),
        designers=config.names,
        reference=config.reference,
        band=base.band,
        rollouts=base.rollouts,
        budget=cap,
        remeasure=base.remeasure,
        played=len(frozenset[str]().union(*(entry.played for entry in results))),
        resamples=config.resamples,
        figures=figures,
        differences=differences,
    )


def _figures(policy: str, designer: str, sample: Sample, variety: Variety, cap: int, *, fresh: bool) -> DesignerFigures:
    gave_up = [outcome for outcome in sample.all if outcome.status == "rejected" and outcome.rollouts < cap]
    return DesignerFigures(
        policy=policy,
        designer=designer,
        accepted=sum(outcome.accepted for outcome in sample.all),
        rollouts=sum(outcome.rollouts for outcome in sample.all),
        invalid=sum(outcome.status == "invalid" for outcome in sample.all),
        gave_up=len(gave_up),
        unspent=sum(cap - outcome.rollouts for outcome in gave_up),
        measures=estimates_of(sample, fresh=fresh),
        curve=curve_of(sample, cap, fresh=fresh),
        variety=variety,
    )
