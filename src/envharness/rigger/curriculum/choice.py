"""Which levels to play, which to measure again, which to retire. Pure; every draw comes from a named stream."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from math import log

from envharness.core.errors import ConfigError
from envharness.core.seeding import stream
from envharness.rigger.curriculum.levels import Level
from envharness.rigger.curriculum.worth import MEMORY, Worth, belief, worth_of


@dataclass(frozen=True)
class Sampling:
    """How levels are drawn for training.

    A level's chance grows with its learnability, with a part kept for those not measured for long, after prioritised
    level replay (Jiang, Grefenstette and Rocktäschel 2021); the floor keeps every level in play.
    """

    floor: float = 0.02
    """The least learnability counted, 0 to 1/4: a level believed mastered may have been forgotten."""
    sharpness: float = 8.0
    """The power of the learnability that chances are proportional to: 0 draws evenly, 1 in proportion. In proportion a
    buffer is hardly better than an even draw, because there are so many more levels beside the frontier than on it."""
    stale_share: float = 0.1
    """The share of all chances that is dealt out by staleness alone, 0 to 1."""
    memory: float = MEMORY

    def __post_init__(self) -> None:
        if not 0.0 <= self.floor <= 0.25:  # noqa: PLR2004  p(1 - p) is never more
            raise ConfigError(f"curriculum floor {self.floor}: give a learnability from 0 to 0.25")
        if not 0.0 <= self.sharpness <= 100.0:  # noqa: PLR2004  more would leave one level in play
            raise ConfigError(f"curriculum sharpness {self.sharpness}: give a power from 0 to 100")
        if not 0.0 <= self.stale_share <= 1.0:
            raise ConfigError(f"curriculum stale_share {self.stale_share}: give a share from 0 to 1")
        if not 0.0 < self.memory <= 1.0:
            raise ConfigError(f"curriculum memory {self.memory}: give a share above 0, up to 1")


def chances(levels: Sequence[Level], now: int, sampling: Sampling) -> list[float]:
    """Return the chance of each level to be the first drawn; they sum to 1. Retired levels have none."""
    worths = [None if level.retired else worth_of(level, now, sampling.memory) for level in levels]
    learnable = _shares(
        [0.0 if w is None else max(w.learnability, sampling.floor) ** sampling.sharpness for w in worths]
    )
    stale = _shares([0.0 if w is None else float(w.staleness) for w in worths])
    if not any(stale):
        return learnable
    mixed = zip(learnable, stale, strict=True)
    return [(1 - sampling.stale_share) * by_worth + sampling.stale_share * by_age for by_worth, by_age in mixed]


def sample(levels: Sequence[Level], count: int, *, now: int, seed: int, sampling: Sampling) -> list[Level]:
    """Draw `count` different levels, in the order drawn. Raises ConfigError where fewer can be played.

    The draw depends on the set of levels, not on their order.
    """
    ordered = sorted(levels, key=lambda level: level.id)
    weights = chances(ordered, now, sampling)
    playable = [(level, weight) for level, weight in zip(ordered, weights, strict=True) if weight > 0]
    if count > len(playable):
        raise ConfigError(
            f"curriculum: asked for {count} levels, but only {len(playable)} of {len(levels)} are in play"
        )
    random = stream(seed, "curriculum", now)
    # Exponential clocks: the order in which they ring is a weighted draw without replacement (Efraimidis and Spirakis
    # 2006).
    rings = [(-log(1.0 - random.random()) / weight, level.id, level) for level, weight in playable]
    return [level for _, _, level in sorted(rings, key=lambda ring: ring[:2])[:count]]


def to_remeasure(
    levels: Sequence[Level], *, now: int, rollouts: int, per_level: int, memory: float = MEMORY
) -> list[Level]:
    """Return the levels to measure again within a budget of rollouts, the least known first, then the stalest.

    One that was measured in round `now` is left out.
    """
    due = [level for level in levels if not level.retired and level.staleness(now) > 0]

    def urgency(level: Level) -> tuple[float, int, str]:
        worth: Worth = worth_of(level, now, memory)
        return (-round(worth.deviation, 9), -worth.staleness, level.id)

    return sorted(due, key=urgency)[: rollouts // per_level]


@dataclass(frozen=True)
class Retirement:
    """When a level has nothing left to teach."""

    mastered_above: float = 0.9
    """A level is mastered where the rate is above this ..."""
    impossible_below: float = 0.05
    """... impossible where it is below this ..."""
    threshold: float = 0.9
    """... with at least this probability."""

    def reason(self, level: Level, now: int, memory: float = MEMORY) -> str:
        """Return `mastered`, `impossible`, or an empty string where the level stays."""
        posterior = belief(level.outcomes, now, memory)
        if posterior.mass((self.mastered_above, 1.0)) >= self.threshold:
            return "mastered"
        if posterior.mass((0.0, self.impossible_below)) >= self.threshold:
            return "impossible"
        return ""


def _shares(weights: list[float]) -> list[float]:
    total = sum(weights)
    return [weight / total for weight in weights] if total else [0.0] * len(weights)
