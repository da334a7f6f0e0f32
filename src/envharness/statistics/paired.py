"""Comparisons on the same tasks: a bootstrap over tasks, exact tests of paired differences, and Holm's correction.

Tasks are the unit. What several seeds say about one task goes in as sums over the seeds, so that a task is drawn, or
its sides are swapped, as a whole: seeds of one task are no independent evidence.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from math import comb

import numpy as np
from numpy.typing import NDArray

Numbers = NDArray[np.float64]
Draws = NDArray[np.intp]
_Statistic = Callable[[Numbers], Numbers]

SWAPS = 1 << 16
"""Ways to swap sides that a test looks at: all of them where there are no more, else so many drawn ones."""
CELLS = 1 << 22
"""Entries of an intermediate table, so that memory stays small however many tasks there are."""
_MARGIN = 1e-9
"""What rounding may take from a tie: a swap as extreme as the observation counts as extreme."""


def cluster_draws(clusters: int, samples: int, seed: int) -> Draws:
    """Return `samples` bootstrap samples of `clusters` tasks: a (samples, clusters) table of task numbers.

    All measures and designers of a comparison share one table, so that differences are paired.
    """
    return np.random.default_rng(seed).integers(0, clusters, size=(samples, clusters))


def ratio(numerators: Sequence[float], denominators: Sequence[float]) -> float:
    """Return the ratio of the sums: inf where only the denominator is 0, nan where both are."""
    return float(_ratio(np.asarray(sum(numerators), float), np.asarray(sum(denominators), float)))


def ratio_samples(numerators: Sequence[float], denominators: Sequence[float], draws: Draws) -> Numbers:
    """Return the ratio of the sums in every bootstrap sample, as `ratio` does. A mean is a ratio with counts below."""
    above, below = np.asarray(numerators, float), np.asarray(denominators, float)
    step = max(1, CELLS // max(1, draws.shape[1]))
    parts = [
        _ratio(above[rows].sum(axis=1), below[rows].sum(axis=1))
        for rows in (draws[start : start + step] for start in range(0, len(draws), step))
    ]
    return np.concatenate(parts) if parts else np.empty(0)


def percentile_interval(samples: Numbers, level: float = 0.95) -> tuple[float, float] | None:
    """Return the percentile bootstrap interval; an end may be infinite. None where no sample is defined.

    Samples that are nan say nothing and are left out. Quantiles are values that occurred: infinite ones do not mix.
    """
    defined = samples[~np.isnan(samples)]
    if not len(defined):
        return None
    tail = (1 - level) / 2
    low, high = np.quantile(defined, (tail, 1 - tail), method="inverted_cdf")
    return float(low), float(high)


def sign_flip_test(differences: Sequence[float], seed: int) -> float:
    """Return the two-sided p-value of a mean paired difference: the share of sign flips that give as large a sum.

    The null: which side of a task got which outcome is a toss-up. Exact, however many tasks, where the differences are
    whole numbers (counts); exact up to 16 unequal tasks otherwise, beyond that from `SWAPS` drawn flips, the observed
    one counted, so that it is never 0. One where nothing differs.
    """
    unequal = [difference for difference in differences if difference != 0]
    if all(float(difference).is_integer() for difference in unequal):
        return _exact_sign_flip([int(difference) for difference in unequal])
    values = np.asarray(unequal, float)
    observed = abs(float(values.sum()))
    return _share_as_extreme(len(values), seed, lambda swaps: np.abs(values.sum() - 2 * (swaps @ values)), observed)


def swap_test(
    first: tuple[Sequence[float], Sequence[float]], second: tuple[Sequence[float], Sequence[float]], seed: int
) -> float:
    """Return the two-sided p-value of a difference of ratios; each side is (numerators, denominators), one a task.

    The null and the exactness are those of `sign_flip_test`: the two sides of a task are swapped as a whole. Every
    denominator's sum must stay positive under any swap (rollouts do).
    """
    above, below = np.asarray(first[0], float), np.asarray(first[1], float)
    to_above, to_below = np.asarray(second[0], float) - above, np.asarray(second[1], float) - below
    moves = (to_above != 0) | (to_below != 0)
    to_above, to_below = to_above[moves], to_below[moves]
    totals = (above.sum(), below.sum(), float(np.sum(second[0])), float(np.sum(second[1])))

    def statistic(swaps: Numbers) -> Numbers:
        up, down = swaps @ to_above, swaps @ to_below
        return np.abs((totals[0] + up) / (totals[1] + down) - (totals[2] - up) / (totals[3] - down))

    observed = float(statistic(np.zeros((1, len(to_above))))[0])
    return _share_as_extreme(len(to_above), seed, statistic, observed)


def mcnemar_test(better: int, worse: int) -> float:
    """Return the exact two-sided p-value of McNemar's test; of `better` and `worse` tasks only one side succeeded.

    For one outcome a task. With several seeds a task, `sign_flip_test` on the sums is the test; with one the two agree.
    """
    unequal = better + worse
    tail = sum(comb(unequal, count) for count in range(min(better, worse) + 1))
    return min(1.0, 2 * tail / 2**unequal)


def holm(p_values: Sequence[float]) -> list[float]:
    """Return p-values adjusted for how many there are (Holm 1979), in the order given."""
    adjusted = [0.0] * len(p_values)
    highest = 0.0
    for rank, index in enumerate(sorted(range(len(p_values)), key=lambda index: p_values[index])):
        highest = max(highest, min(1.0, (len(p_values) - rank) * p_values[index]))
        adjusted[index] = highest
    return adjusted


def _ratio(above: Numbers, below: Numbers) -> Numbers:
    with np.errstate(divide="ignore", invalid="ignore"):
        return above / below


def _exact_sign_flip(differences: Sequence[int]) -> float:
    """Build the whole distribution of the flipped sum, one difference after the other."""
    reach = sum(map(abs, differences))
    chances = np.zeros(2 * reach + 1)
    chances[reach] = 1.0
    for size in map(abs, differences):
        # Only sums within reach so far have mass, so nothing that is rolled over an end is lost.
        chances = (np.roll(chances, size) + np.roll(chances, -size)) / 2
    sums = np.abs(np.arange(-reach, reach + 1))
    return min(1.0, float(chances[sums >= abs(sum(differences))].sum()))


def _share_as_extreme(tasks: int, seed: int, statistic: _Statistic, observed: float) -> float:
    """Return the share of swaps whose statistic reaches the observed one."""
    exact = 2**tasks <= SWAPS
    total = 2**tasks if exact else SWAPS
    random = np.random.default_rng(seed)
    margin = _MARGIN * max(1.0, observed)
    step = max(1, CELLS // max(1, tasks))
    extreme = 0
    for start in range(0, total, step):
        rows = min(step, total - start)
        if exact:
            numbers = np.arange(start, start + rows, dtype=np.int64)
            swaps = (numbers[:, None] >> np.arange(tasks, dtype=np.int64)) & 1
        else:
            swaps = random.integers(0, 2, size=(rows, tasks))
        extreme += int((statistic(swaps.astype(float)) >= observed - margin).sum())
    return extreme / total if exact else (extreme + 1) / (total + 1)
