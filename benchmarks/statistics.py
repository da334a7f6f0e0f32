"""Rules of acceptance compared on simulated tasks: what they pay, what they accept, and how much of it is true.

`python -m benchmarks.statistics --tasks 1200` prints the tables of docs/statistics.md.
"""

from __future__ import annotations

import argparse
import json
from dataclasses import asdict
from statistics import mean
from time import process_time

from benchmarks import Figure, at_least, at_most
from benchmarks.acceptance import PosteriorRule, identity_passes, identity_passes_posterior
from benchmarks.adaptation import waves
from benchmarks.simulated_tasks import EXPECTED, HARDER
from benchmarks.study import RULES, Row, Study, study
from envharness.statistics.dose import DoseBelief, Trial

TASKS = 1200
IDENTITY_PLAYS = 1000
WAVE = 60
THRESHOLDS = (0.7, 0.8, 0.9, 0.95)


def measure() -> dict[str, Figure]:
    """The figures of the project's own populations: about four minutes of a core."""
    return _figures(study(EXPECTED, TASKS), study(HARDER, TASKS // 2))


def main() -> None:
    """Print the tables, and the figures as a JSON object on a line of their own."""
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
    _print_waves(harder)
    _print_identity()
    figures = _figures(expected, harder)
    print(f"\n{json.dumps({name: asdict(figure) for name, figure in figures.items()})}", flush=True)
    print(f"\nBatches and giving up, on {tasks // 3} tasks\n")
    _print_rows(_variants(study(EXPECTED, tasks // 3, batches=(5, 2, 10), rules=())))


def _figures(expected: Study, harder: Study) -> dict[str, Figure]:
    method, dose, hard = expected.row("method, K = 5"), expected.dose(0.9), harder.dose(0.9)
    posterior_identity = identity_passes_posterior(0.7, PosteriorRule(0.9, 0.15), IDENTITY_PLAYS)
    figures = {
        "statistics_belief_ms": at_most(_belief_ms(), "ms", 50),
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


def _belief_ms() -> float:
    """CPU of one belief of 60 doses over eight types, asked for the best one and for what is in reach."""
    types = [f"type-{number}" for number in range(8)]
    trials = [Trial(types[number % 8], (number % 15 + 1) / 16, number % 6, 5) for number in range(60)]
    seconds: list[float] = []
    for _ in range(5):
        begun = process_time()
        belief = DoseBelief((0.4, 0.6), falling=True, baseline=(5, 5), trials=trials)
        belief.best(types)
        max(belief.reachable(type_) for type_ in types)
        seconds.append(process_time() - begun)
    return min(seconds) * 1e3


def _about(value: float, unit: str, published: float, error: float) -> Figure:
    return Figure(value, unit, f"{published:g}+-{error:g}", abs(value - published) <= error)


def _rows(of: Study) -> dict[str, Row]:
    rows = {name: of.row(name) for name in RULES}
    return rows | {f"dose finding, tau = {accept}": of.dose(accept) for accept in THRESHOLDS}


def _variants(of: Study) -> dict[str, Row]:
    rows = {f"batches of {size}": of.dose(0.9, batch=size) for size in (2, 5, 10)}
    for level in (0.02, 0.1, 0.3, 0.5):
        rows[f"batches of 5, give up below {level}"] = of.dose(0.9, give_up=level)
    return rows


def _matched(of: Study) -> dict[str, Row]:
    rows: dict[str, Row] = {}
    for name in RULES:
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


def _print_waves(of: Study) -> None:
    print(f"\nThe same tasks in waves of {WAVE}, each audited with 100 fresh rollouts an accepted task\n")
    columns = ("threshold", "rollouts a task", "accepted", "claimed so far", "audited so far", "true share")
    print(f"| {' | '.join(columns)} |\n{'|---' * len(columns)}|")
    for threshold in (0.7, 0.9):
        for wave in waves(of.tasks, of.doses[5], WAVE, threshold=threshold):
            shares = (wave.accepted, wave.claimed, wave.audited, wave.true_share)
            print(f"| {wave.threshold:.3f} | {wave.rollouts:.0f} | {' | '.join(f'{share:.2f}' for share in shares)} |")


def _print_identity() -> None:
    print("\nA component that does nothing\n")
    print("| true rate | method, five rounds | posterior, 0.9 / 0.15 |\n|---|---|---|")
    for rate in (0.95, 0.9, 0.8, 0.7, 0.65):
        passed = identity_passes_posterior(rate, PosteriorRule(0.9, 0.15), IDENTITY_PLAYS)
        print(f"| {rate} | {identity_passes(rate):.2f} | {passed:.3f} |")


if __name__ == "__main__":
    main()
