"""The measures of a comparison. Each is a ratio of sums over tasks, so that one bootstrap and one test serve all."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Literal

from envharness.campaign.outcomes import TaskOutcome

Unit = Literal["share", "rollouts", "per 100 rollouts"]
Value = Callable[[TaskOutcome], float]


@dataclass(frozen=True)
class Measure:
    """One figure of a designer."""

    id: str
    title: str
    unit: Unit
    above: Value
    below: Value = lambda _: 1.0
    """What is divided by: every task counts one, unless it says otherwise."""
    fresh: bool = False
    """Whether it needs fresh rollouts."""
    tested: bool = False
    """Whether designers are tested against each other by it."""


MEASURES = (
    Measure("in_band_before", "in band before", "share", lambda task: task.before),
    Measure("in_band_counted", "in band as counted", "share", lambda task: task.counted, tested=True),
    Measure("in_band_fresh", "in band re-measured", "share", lambda task: bool(task.fresh), fresh=True, tested=True),
    Measure(
        "in_band_expected",
        "expected in band",
        "share",
        lambda task: task.probability or 0.0,
        fresh=True,
        tested=True,
    ),
    Measure("accepted", "accepted", "share", lambda task: task.accepted),
    Measure(
        "accepted_held",
        "of the accepted, re-measured in band",
        "share",
        lambda task: task.held,
        lambda task: task.accepted,
        fresh=True,
    ),
    Measure("rollouts", "rollouts a task", "rollouts", lambda task: task.rollouts, tested=True),
    Measure(
        "rollouts_per_accept", "rollouts per accept", "rollouts", lambda task: task.rollouts, lambda task: task.accepted
    ),
    Measure(
        "rollouts_per_held",
        "rollouts per accept that held",
        "rollouts",
        lambda task: task.rollouts,
        lambda task: task.held,
        fresh=True,
    ),
    # The two above upside down: these stay finite where a designer gets nothing accepted, so they can be tested.
    Measure(
        "accepts_per_100",
        "accepts",
        "per 100 rollouts",
        lambda task: 100 * task.accepted,
        lambda task: task.rollouts,
        tested=True,
    ),
    Measure(
        "held_per_100",
        "accepts that held",
        "per 100 rollouts",
        lambda task: 100 * task.held,
        lambda task: task.rollouts,
        fresh=True,
        tested=True,
    ),
)
"""`fresh` rollouts took no part in any decision. A component `held` where they find its task in band."""
