"""What a level is worth to a learner now: p(1 - p) under a posterior in which old outcomes count for less. Pure.

For a policy trained with group-relative advantages p(1 - p) is the variance of the reward, so the expected size of what
one rollout teaches; it is largest where half of the rollouts win.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from envharness.rigger.curriculum.levels import Level, LevelOutcome
from envharness.statistics.beta import PRIOR, BetaPosterior

MEMORY = 0.7
"""How much of an outcome's weight is left one round later, because the policy has changed since."""


@dataclass(frozen=True)
class Worth:
    """What is believed of a level now."""

    level: str
    learnability: float
    """Expected p(1 - p), 0 to 1/4."""
    success_rate: float
    """Expected p."""
    deviation: float
    """Standard deviation of p: how little is known of it."""
    staleness: int
    """Rounds since it was measured."""


def belief(outcomes: Sequence[LevelOutcome], now: int, memory: float = MEMORY) -> BetaPosterior:
    """Return the posterior of a level's success rate in round `now`; an outcome `n` rounds old counts `memory**n`."""
    won, lost = PRIOR
    for outcome in outcomes:
        weight = memory ** max(0, now - outcome.round)
        won += weight * outcome.successes
        lost += weight * (outcome.trials - outcome.successes)
    return BetaPosterior(0, 0, prior=(won, lost))


def worth_of(level: Level, now: int, memory: float = MEMORY) -> Worth:
    """Return what the level is worth in round `now`."""
    posterior = belief(level.outcomes, now, memory)
    won, lost = posterior.parameters
    total = won + lost
    return Worth(
        level=level.id,
        learnability=won * lost / (total * (total + 1)),
        success_rate=posterior.mean,
        deviation=(won * lost / (total**2 * (total + 1))) ** 0.5,
        staleness=level.staleness(now),
    )
