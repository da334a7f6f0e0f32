"""The audit of accepted tasks: what fresh rollouts, which decided nothing, say about the share truly in band.

Counting observed rates would punish or flatter by luck: at p = 0.5 five rollouts show a rate in the band only 62.5 % of
the time. So the tasks are summarised together (empirical Bayes): a prior over success rates is fitted to all of them,
and each task's posterior under it is asked for the mass in the band. The prior is a mixture of Beta distributions on a
grid of means and concentrations, not a single Beta: accepted tasks are a heap around the target with a few far off (a
cliff, a flat response), and one Beta that must reach those few spreads the heap out of the band.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache

import numpy as np
from numpy.typing import NDArray

from envharness.core.seeding import derive_seed

Array = NDArray[np.float64]

MEANS = tuple(step / 40 for step in range(1, 40, 2))
CONCENTRATIONS = (4.0, 20.0, 100.0, 400.0)
"""Pseudo-rollouts of the prior's parts; the largest bounds how much alike the tasks may be taken to be."""
PSEUDO_TASKS = 1.0
"""How many tasks' worth of weight is spread evenly over the parts, so that a few tasks alone make no sharp prior."""
_STEPS = 60
_RESAMPLES = 200
LARGEST_THRESHOLD = 0.99
"""`raised` stops here: a higher threshold asks for more rollouts than a cap allows."""
LARGEST_FACTOR = 2.0
"""`raised` divides the chance of a false accept by at most this in one step: an audit is itself noisy."""


@dataclass(frozen=True)
class Audit:
    """What fresh rollouts say about a group of tasks.

    `share` is the expected share with a success rate in the band, `low` and `high` its 95 % interval (a bootstrap over
    tasks, and a draw from each task's posterior), `in_band` each task's probability, in the order given. Even if every
    rate were exactly the middle of the band, as many rollouts a task (the mean number, rounded) could show no more than
    `ceiling` under a flat prior, each task by itself, and about `attainable` in this audit, where tasks vouch for each
    other: read `share` beside these.
    """

    share: float
    low: float
    high: float
    ceiling: float
    attainable: float
    tasks: int
    rollouts: int
    in_band: tuple[float, ...]


def audit(counts: Sequence[tuple[int, int]], band: tuple[float, float], *, seed: int = 0) -> Audit | None:
    """Summarise the (successes, trials) of fresh rollouts, one pair a task; None where no rollout was played.

    The bootstrap draws from the stream "statistics.audit" of `seed`, so the same counts give the same interval.
    """
    if any(not 0 <= won <= played for won, played in counts):
        raise ValueError("audit: give 0 <= successes <= trials for every task")
    total = sum(played for _, played in counts)
    if not total:
        return None
    likelihood, inside = _parts(counts, band)
    share, in_band = _shares(likelihood, inside, np.ones((1, len(counts))))
    draws = np.random.default_rng(derive_seed(seed, "statistics.audit"))
    resampled = draws.multinomial(len(counts), np.full(len(counts), 1 / len(counts)), size=_RESAMPLES).astype(float)
    # Which tasks there are is one doubt, whether each is truly in the band another; an interval owes both.
    truly = draws.random(resampled.shape) < _shares(likelihood, inside, resampled)[1]
    low, high = np.quantile((truly * resampled).sum(axis=1) / len(counts), (0.025, 0.975))
    rollouts = round(total / len(counts))
    return Audit(
        share=float(share[0]),
        low=min(float(low), float(share[0])),
        high=max(float(high), float(share[0])),
        ceiling=ceiling(rollouts, band),
        attainable=attainable(len(counts), rollouts, band),
        tasks=len(counts),
        rollouts=rollouts,
        in_band=tuple(float(mass) for mass in in_band[0]),
    )


@lru_cache(maxsize=64)
def ceiling(rollouts: int, band: tuple[float, float]) -> float:
    """Return the share that a flat prior reports, on average, when every rate is exactly the middle of the band."""
    from scipy.special import betainc  # here, because importing scipy costs more than most commands take

    won = np.arange(rollouts + 1, dtype=float)
    mass = betainc(won + 1, rollouts - won + 1, band[1]) - betainc(won + 1, rollouts - won + 1, band[0])
    return float((_wins_at_the_middle(rollouts, band) * mass).sum())


@lru_cache(maxsize=64)
def attainable(tasks: int, rollouts: int, band: tuple[float, float]) -> float:
    """Return the share that `audit` reports when every rate is exactly the middle of the band and luck is average.

    The tasks' wins are the evenly spaced quantiles of their distribution, so nothing is drawn.
    """
    levels = (np.arange(tasks) + 0.5) / tasks
    won = np.searchsorted(np.cumsum(_wins_at_the_middle(rollouts, band)), levels).clip(max=rollouts)
    likelihood, inside = _parts([(int(wins), rollouts) for wins in won], band)
    return float(_shares(likelihood, inside, np.ones((1, tasks)))[0][0])


def raised(threshold: float, *, claimed: float, audited: Audit) -> float:
    """Return the threshold for further acceptances, higher than `threshold` where the audit falls short of the claim.

    `claimed` is the mean probability with which the audited tasks were accepted. What the audit would show if the claim
    were true is at most `claimed` times what is attainable; only where even the upper end of the audit's interval is
    below that, the belief is known to claim too much. The chance of a false accept, 1 - threshold, is then divided by
    how much more often false accepts occurred than was claimed, at most by `LARGEST_FACTOR` a step, and the result
    never exceeds `LARGEST_THRESHOLD`. An audit never lowers a threshold: what looks better than claimed may be luck,
    and costs only rollouts.
    """
    if not 0.0 < threshold < 1.0:
        raise ValueError(f"threshold {threshold}: give one between 0 and 1")
    expected = claimed * audited.attainable
    if audited.high >= expected:
        return threshold
    factor = min((1.0 - audited.share) / max(1.0 - expected, 1e-9), LARGEST_FACTOR)
    return max(threshold, min(1.0 - (1.0 - threshold) / factor, LARGEST_THRESHOLD))


def _wins_at_the_middle(rollouts: int, band: tuple[float, float]) -> Array:
    """Return the chance of 0, 1, ... wins in `rollouts` at the middle of the band."""
    from scipy.special import gammaln, xlogy

    middle = (band[0] + band[1]) / 2
    won = np.arange(rollouts + 1, dtype=float)
    logs = gammaln(rollouts + 1) - gammaln(won + 1) - gammaln(rollouts - won + 1)
    return np.exp(logs + xlogy(won, middle) + xlogy(rollouts - won, 1.0 - middle))


def _parts(counts: Sequence[tuple[int, int]], band: tuple[float, float]) -> tuple[Array, Array]:
    """Return each task's likelihood under each part of the prior, and its mass in the band if it is of that part."""
    from scipy.special import betainc, betaln

    pairs = [(mean * size, (1.0 - mean) * size) for size in CONCENTRATIONS for mean in MEANS]
    a, b = np.array([(1.0, 1.0), *pairs]).T
    won, played = np.array(counts, dtype=float).T[:, :, None]
    after_a, after_b = a + won, b + played - won
    logs = betaln(after_a, after_b) - betaln(a, b)
    inside = betainc(after_a, after_b, band[1]) - betainc(after_a, after_b, band[0])
    return np.exp(logs - logs.max(axis=1, keepdims=True)), inside


def _shares(likelihood: Array, inside: Array, copies: Array) -> tuple[Array, Array]:
    """Fit the prior's weights to every row of `copies` (how often each task counts) by expectation-maximisation.

    Return the expected share in band of each row, and each row's probabilities of the tasks.
    """
    parts = likelihood.shape[1]
    weights = np.full((len(copies), parts), 1.0 / parts)
    for _ in range(_STEPS):
        given = copies / _product(weights, likelihood.T)
        weights = weights * _product(given, likelihood) + PSEUDO_TASKS / parts
        weights /= weights.sum(axis=1, keepdims=True)
    in_band = _product(weights, (likelihood * inside).T) / _product(weights, likelihood.T)
    return (in_band * copies).sum(axis=1) / copies.sum(axis=1), in_band


def _product(left: Array, right: Array) -> Array:
    """Multiply small matrices without BLAS, whose threads would wait for each other on a busy machine."""
    return np.einsum("ij,jk->ik", left, right)
