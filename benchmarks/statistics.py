"""Rules of acceptance compared on simulated tasks: what they pay, what they accept, and how much of it is true.

`python -m benchmarks.statistics --tasks 1200` prints the tables of docs/statistics.md.
"""

from __future__ import annotations

import argparse
import json
from collections.abc import Sequence
from concurrent.futures import ProcessPoolExecutor
from dataclasses import asdict, dataclass
from math import sqrt
from multiprocessing import get_context
from statistics import mean

from benchmarks import Figure, at_least, at_most
from benchmarks.acceptance import (
    DoseFinding,
    MethodsRule,
    Outcome,
    PosteriorRule,
    Visit,
    decided,
    identity_passes,
    identity_passes_posterior,
)
from benchmarks.simulated_tasks import EXPECTED, HARDER, Population, SimulatedTask, simulated_tasks

TASKS = 1200
WORKERS = 2
CHUNK = 50
IDENTITY_PLAYS = 1000
THRESHOLDS = (0.7, 0.8, 0.9, 0.95)
_FINE = tuple(step / 100 for step in range(50, 98))
_RULES: dict[str, MethodsRule | PosteriorRule] = {
    "method, K = 5": MethodsRule(5),
    "method, K = 20": MethodsRule(20),
    "method, K = 30": MethodsRule(30),
    "posterior per magnitude": PosteriorRule(0.8, 0.05),
    "posterior, drop early": PosteriorRule(0.8, 0.15),
}


@dataclass(frozen=True)
class Row:
    """What a rule does to a population: shares are of all tasks, `true_share` of those accepted."""

    rollouts: float
    accepted: float
    true_share: float
    true_share_error: float
    false_accepts: float
    misses: float
    """Tasks with a component in reach of which none was truly found."""
    claimed: float
    """The mean probability with which components were accepted; 0 for rules that know none."""

    @property
    def rollouts_per_true_accept(self) -> float:
        """Rollouts of all tasks, the failed ones included, for each component truly in the band."""
        true = self.accepted * self.true_share
        return self.rollouts / true if true else float("inf")


@dataclass(frozen=True)
class Study:
    """What was played on one population."""

    tasks: list[SimulatedTask]
    reachable: list[bool]
    played: dict[str, list[Outcome]]
    doses: dict[int, list[list[Visit]]]
    """By size of batch."""

    def row(self, name: str) -> Row:
        """Summarise a rule without a belief."""
        return self._row(self.played[name])

    def dose(self, accept: float, *, batch: int = 5, give_up: float = 0.04) -> Row:
        """Summarise dose finding under a threshold."""
        return self._row([decided(visits, accept, give_up=give_up) for visits in self.doses[batch]])

    def dose_for(self, rollouts: float) -> tuple[float, Row]:
        """Return the strictest threshold that pays no more than `rollouts` a task, and what it does."""
        rows = [(accept, self.dose(accept)) for accept in _FINE]
        return max((pair for pair in rows if pair[1].rollouts <= rollouts), default=rows[0], key=lambda pair: pair[0])

    def dose_as_true_as(self, true_share: float) -> tuple[float, Row]:
        """Return the laxest threshold whose accepted components are in the band as often, and what it does."""
        rows = [(accept, self.dose(accept)) for accept in _FINE]
        return next((pair for pair in rows if pair[1].true_share >= true_share), rows[-1])

    def _row(self, outcomes: Sequence[Outcome]) -> Row:
        accepted = [outcome for outcome in outcomes if outcome.accepted]
        share = mean(outcome.true for outcome in accepted) if accepted else 0.0
        count = len(self.reachable)
        missed = sum(reach and not seen.true for reach, seen in zip(self.reachable, outcomes, strict=True))
        return Row(
            rollouts=mean(outcome.rollouts for outcome in outcomes),
            accepted=len(accepted) / count,
            true_share=share,
            true_share_error=sqrt(share * (1 - share) / max(len(accepted), 1)),
            false_accepts=sum(not outcome.true for outcome in accepted) / count,
            misses=missed / count,
            claimed=mean(outcome.claimed for outcome in accepted) if accepted else 0.0,
        )


def study(
    population: Population, tasks: int, *, batches: Sequence[int] = (5,), rules: Sequence[str] = tuple(_RULES)
) -> Study:
    """Play rules on `tasks` tasks of a population; the same content whatever the number of workers."""
    simulated = simulated_tasks(population, tasks)
    jobs = [(population, start, min(start + CHUNK, tasks)) for start in range(0, tasks, CHUNK)]
    with ProcessPoolExecutor(WORKERS, mp_context=get_context("spawn")) as pool:
        played = {name: pool.map(_play, jobs, [_RULES[name]] * len(jobs)) for name in rules}
        doses = {size: pool.map(_visits, jobs, [DoseFinding(batch=size)] * len(jobs)) for size in batches}
        return Study(
            simulated,
            [task.reachable() for task in simulated],
            {name: [outcome for chunk in chunks for outcome in chunk] for name, chunks in played.items()},
            {size: [visits for chunk in chunks for visits in chunk] for size, chunks in doses.items()},
        )


def measure() -> dict[str, Figure]:
    """The figures of the project's own populations: about four minutes of a core."""
    return _figures(study(EXPECTED, TASKS), study(HARDER, TASKS // 2))


def main() -> None:
    """Print the tables, and the figures in one JSON object as the last line."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.statistics", description=main.__doc__)
    parser.add_argument("--tasks", type=int, default=TASKS)
    tasks: int = parser.parse_args().tasks
    expected = study(EXPECTED, tasks)
    print(f"{tasks} tasks as the prior expects them, {mean(expected.reachable):.2f} with a component in reach\n")
    _print_rows(_rows(expected))
    print("\nAt equal rollouts (method) or at equal true share (posterior)\n")
    _print_rows(_matched(expected))
    harder = study(HARDER, tasks // 2)
    print(f"\n{tasks // 2} harder tasks, {mean(harder.reachable):.2f} with a component in reach\n")
    _print_rows(_rows(harder))
    print(
        "\nA component that does nothing\n\n| true rate | method, five rounds | posterior, 0.9 / 0.15 |\n|---|---|---|"
    )
    for rate in (0.95, 0.9, 0.8, 0.7, 0.65):
        passed = identity_passes_posterior(rate, PosteriorRule(0.9, 0.15), IDENTITY_PLAYS)
        print(f"| {rate} | {identity_passes(rate):.2f} | {passed:.3f} |")
    figures = _figures(expected, harder)
    print(f"\n{json.dumps({name: asdict(figure) for name, figure in figures.items()})}", flush=True)
    print(f"\nBatches and giving up, on {tasks // 3} tasks\n")
    batches = study(EXPECTED, tasks // 3, batches=(5, 2, 10), rules=())
    rows = {f"batches of {size}": batches.dose(0.9, batch=size) for size in (2, 5, 10)}
    rows |= {
        f"batches of 5, give up below {level}": batches.dose(0.9, give_up=level) for level in (0.02, 0.1, 0.3, 0.5)
    }
    _print_rows(rows)


def _figures(expected: Study, harder: Study) -> dict[str, Figure]:
    method, dose, hard = expected.row("method, K = 5"), expected.dose(0.9), harder.dose(0.9)
    posterior_identity = identity_passes_posterior(0.7, PosteriorRule(0.9, 0.15), IDENTITY_PLAYS)
    figures = {
        "statistics_method_true_share": _about(method.true_share, "share", 0.35, 0.05),
        "statistics_method_rollouts_a_task": _about(method.rollouts, "rollouts", 22, 3),
        "statistics_dose_rollouts_a_task": at_most(dose.rollouts, "rollouts", 125),
        "statistics_dose_accepted": at_least(dose.accepted, "share", 0.85),
        "statistics_dose_true_share": at_least(dose.true_share, "share", 0.85),
        "statistics_dose_over_claim": at_most(dose.claimed - dose.true_share, "share", 0.03),
        "statistics_harder_dose_true_share": at_least(hard.true_share, "share", 0.80),
        "statistics_harder_dose_over_claim": Figure(hard.claimed - hard.true_share, "share"),
        "statistics_harder_strict_true_share": at_least(harder.dose(0.95).true_share, "share", 0.87),
        "statistics_identity_passes_method_at_080": _about(identity_passes(0.8), "chance", 0.77, 0.01),
        "statistics_identity_passes_method_at_070": _about(identity_passes(0.7), "chance", 0.94, 0.01),
        "statistics_identity_passes_posterior_at_070": at_most(posterior_identity, "chance", 0.1),
    }
    for rollouts in (20, 30):
        rule = expected.row(f"method, K = {rollouts}")
        _, row = expected.dose_for(rule.rollouts)
        ratio = row.false_accepts / max(rule.false_accepts, 1e-9)
        figures[f"statistics_false_accepts_vs_k{rollouts}"] = at_most(ratio, "ratio", 0.5)
    for name, rule in (("bisection", "posterior per magnitude"), ("early_drop", "posterior, drop early")):
        cost = expected.row(rule).rollouts_per_true_accept
        _, row = expected.dose_as_true_as(expected.row(rule).true_share)
        figures[f"statistics_saved_vs_{name}"] = at_least(1 - row.rollouts_per_true_accept / cost, "share", 0.25)
    return figures


def _about(value: float, unit: str, published: float, error: float) -> Figure:
    return Figure(value, unit, f"{published:g}+-{error:g}", abs(value - published) <= error)


def _rows(of: Study) -> dict[str, Row]:
    rows = {name: of.row(name) for name in _RULES}
    return rows | {f"dose finding, tau = {accept}": of.dose(accept) for accept in THRESHOLDS}


def _matched(of: Study) -> dict[str, Row]:
    rows: dict[str, Row] = {}
    for name in _RULES:
        rule = of.row(name)
        by_rollouts = name.startswith("method")
        accept, row = of.dose_for(rule.rollouts) if by_rollouts else of.dose_as_true_as(rule.true_share)
        rows |= {name: rule, f"- beside {name}: dose finding, tau = {accept}": row}
    return rows


def _print_rows(rows: dict[str, Row]) -> None:
    columns = (
        "rule",
        "rollouts a task",
        "accepted",
        "true share",
        "claimed",
        "false accepts",
        "misses",
        "per true accept",
    )
    print(f"| {' | '.join(columns)} |\n{'|---' * len(columns)}|")
    for name, row in rows.items():
        claimed = f"{row.claimed:.2f}" if row.claimed else "-"
        print(
            f"| {name} | {row.rollouts:.0f} | {row.accepted:.2f} | {row.true_share:.2f} ± {row.true_share_error:.2f} "
            f"| {claimed} | {row.false_accepts:.3f} | {row.misses:.2f} | {row.rollouts_per_true_accept:.0f} |",
            flush=True,
        )


def _play(job: tuple[Population, int, int], rule: MethodsRule | PosteriorRule) -> list[Outcome]:
    population, start, end = job
    return [rule.play(task) for task in simulated_tasks(population, end)[start:]]


def _visits(job: tuple[Population, int, int], rule: DoseFinding) -> list[list[Visit]]:
    population, start, end = job
    return [rule.visits(task) for task in simulated_tasks(population, end)[start:]]


if __name__ == "__main__":
    main()
