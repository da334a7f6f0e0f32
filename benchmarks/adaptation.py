"""Waves of tasks, each audited with fresh rollouts, and the threshold of the next by what the audits so far say.

`python -m benchmarks.adaptation` prints how near audits come to the truth.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from statistics import mean

from benchmarks.acceptance import Outcome, Visit, decided
from benchmarks.simulated_tasks import BAND, SimulatedTask
from envharness.core.seeding import stream
from envharness.statistics.audit import audit, raised


@dataclass(frozen=True)
class Wave:
    """What one wave accepted under its threshold, what was claimed, what its audit found, and what is true."""

    threshold: float
    rollouts: float
    accepted: float
    claimed: float
    audited: float
    true_share: float


def waves(
    tasks: Sequence[SimulatedTask], doses: Sequence[list[Visit]], size: int, *, threshold: float = 0.9, fresh: int = 100
) -> list[Wave]:
    """Return the waves of dose finding with a threshold that rises by itself; `fresh` rollouts audit an accepted task.

    A threshold answers for all accepted under it so far, and for no other.
    """
    found: list[Wave] = []
    counts, claims = list[tuple[int, int]](), list[float]()
    for start in range(0, len(tasks), size):
        part = tasks[start : start + size]
        outcomes = [decided(visits, threshold) for visits in doses[start : start + size]]
        accepted = [(task, outcome) for task, outcome in zip(part, outcomes, strict=True) if outcome.accepted]
        counts += [(_fresh_wins(task, outcome, fresh), fresh) for task, outcome in accepted]
        claims += [outcome.claimed for _, outcome in accepted]
        audited = audit(counts, BAND)
        if audited is None:
            continue
        found.append(
            Wave(
                threshold=threshold,
                rollouts=mean(outcome.rollouts for outcome in outcomes),
                accepted=len(accepted) / len(part),
                claimed=mean(claims),
                audited=audited.share,
                true_share=mean(outcome.true for _, outcome in accepted) if accepted else 0.0,
            )
        )
        after = raised(threshold, claimed=mean(claims), audited=audited)
        if after > threshold:
            threshold, counts, claims = after, [], []
    return found


def _fresh_wins(task: SimulatedTask, outcome: Outcome, fresh: int) -> int:
    assert outcome.accepted is not None
    rate = task.types[outcome.accepted.type](outcome.accepted.magnitude)
    draws = stream(0, "benchmark.audit", task.name)
    return sum(draws.random() < rate for _ in range(fresh))


def audit_errors(tasks: int, fresh: int, audits: int = 20) -> tuple[float, float, float]:
    """Return the mean true share, the mean audited one, and how often the audit's interval held the truth.

    Nine tenths of the tasks are in the band, evenly from .42 to .58, the others anywhere outside.
    """
    outside = ((0.0, 0.4), (0.6, 1.0))
    true, found, held = list[float](), list[float](), list[bool]()
    for number in range(audits):
        draws = stream(0, "benchmark.audits", tasks, fresh, number)
        inside = [draws.random() < 0.9 for _ in range(tasks)]
        rates = [draws.uniform(0.42, 0.58) if here else draws.uniform(*draws.choice(outside)) for here in inside]
        audited = audit([(sum(draws.random() < rate for _ in range(fresh)), fresh) for rate in rates], BAND)
        assert audited is not None
        true.append(mean(inside))
        found.append(audited.share)
        held.append(audited.low <= true[-1] <= audited.high)
    return mean(true), mean(found), mean(held)


def main() -> None:
    """Print the errors of audits by tasks and fresh rollouts."""
    print("| tasks | fresh rollouts | true share | audited | interval holds the truth |\n|---|---|---|---|---|")
    for tasks, fresh in ((8, 100), (24, 40), (24, 100), (60, 40), (60, 100)):
        true, found, held = audit_errors(tasks, fresh)
        print(f"| {tasks} | {fresh} | {true:.2f} | {found:.2f} | {held:.2f} |", flush=True)


if __name__ == "__main__":
    main()
