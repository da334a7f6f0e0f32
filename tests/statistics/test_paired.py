from __future__ import annotations

from itertools import product
from math import inf, isnan

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from envharness.statistics.paired import (
    SWAPS,
    cluster_draws,
    holm,
    mcnemar_test,
    percentile_interval,
    ratio,
    ratio_samples,
    sign_flip_test,
    swap_test,
)

whole = st.lists(st.integers(-4, 4), min_size=1, max_size=9)
rates = st.floats(0, 1, allow_subnormal=False)


def by_hand(differences: list[float]) -> float:
    """The definition: every way to flip, counted one by one."""
    observed = abs(sum(differences))
    flips = list(product((1, -1), repeat=len(differences)))
    sums = [abs(sum(sign * difference for sign, difference in zip(flip, differences, strict=True))) for flip in flips]
    return sum(value >= observed - 1e-9 for value in sums) / len(flips)


@given(whole)
def test_counts_are_tested_exactly(differences: list[int]) -> None:
    assert sign_flip_test(differences, 0) == pytest.approx(by_hand([float(d) for d in differences]))


@given(st.lists(rates, min_size=1, max_size=8))
def test_few_differences_are_tested_exactly(differences: list[float]) -> None:
    shifted = [difference - 0.4 for difference in differences]
    assert sign_flip_test(shifted, 0) == pytest.approx(by_hand(shifted))


@given(whole, st.integers(0, 9))
def test_a_test_knows_no_side_and_no_order(differences: list[int], seed: int) -> None:
    p = sign_flip_test(differences, seed)
    assert 0 < p <= 1
    assert sign_flip_test([-difference for difference in differences], seed) == pytest.approx(p)
    assert sign_flip_test(sorted(differences), seed) == pytest.approx(p)
    assert sign_flip_test([*differences, 0, 0], seed) == pytest.approx(p)


@given(st.integers(0, 40), st.integers(0, 40))
def test_with_one_outcome_a_task_sign_flips_are_mcnemars_test(better: int, worse: int) -> None:
    assert sign_flip_test([1] * better + [-1] * worse, 0) == pytest.approx(mcnemar_test(better, worse))


def test_mcnemar_against_known_values() -> None:
    # Binomial tails at one half: 2 * (1 + 10 + 45) / 1024, 2 / 1024.
    assert mcnemar_test(2, 8) == pytest.approx(0.109375)
    assert mcnemar_test(0, 10) == pytest.approx(0.001953125)
    assert mcnemar_test(0, 0) == 1.0


def test_many_differences_are_tested_by_drawn_flips() -> None:
    # Whole numbers have the exact answer; the same ones as fractions go the other way.
    differences = [1] * 14 + [-1] * 6
    exact, drawn = sign_flip_test(differences, 0), sign_flip_test([difference / 3 for difference in differences], 7)
    assert drawn == pytest.approx(exact, abs=0.006)
    assert drawn == sign_flip_test([difference / 3 for difference in differences], 7)
    assert sign_flip_test([0.3] * 80, 1) == pytest.approx(1 / (SWAPS + 1))


@given(st.lists(st.tuples(st.integers(0, 3), st.integers(0, 3)), min_size=1, max_size=8))
def test_over_equal_counts_a_difference_of_ratios_is_one_of_means(pairs: list[tuple[int, int]]) -> None:
    first, second = [a for a, _ in pairs], [b for _, b in pairs]
    ones = [3] * len(pairs)
    assert swap_test((first, ones), (second, ones), 0) == pytest.approx(
        sign_flip_test([a - b for a, b in pairs], 0), abs=1e-12
    )


def test_what_costs_half_as_much_is_told_apart() -> None:
    cheap, dear = ([1] * 16, [10] * 16), ([1] * 16, [20] * 16)
    assert swap_test(cheap, dear, 0) == pytest.approx(2 / 2**16)
    assert swap_test(cheap, cheap, 0) == 1.0


@given(st.lists(st.tuples(st.integers(0, 3), st.integers(1, 9)), min_size=1, max_size=12), st.integers(0, 99))
def test_an_interval_lies_among_the_tasks_own_ratios(tasks: list[tuple[int, int]], seed: int) -> None:
    above, below = [a for a, _ in tasks], [b for _, b in tasks]
    draws = cluster_draws(len(tasks), 200, seed)
    interval = percentile_interval(ratio_samples(above, below, draws))
    assert interval is not None
    low, high = interval
    own = [a / b for a, b in tasks]
    assert min(own) - 1e-9 <= low <= high <= max(own) + 1e-9
    assert np.array_equal(draws, cluster_draws(len(tasks), 200, seed))


def test_an_interval_covers_the_truth_about_as_often_as_it_says() -> None:
    random = np.random.default_rng(5)
    covered = 0
    for run in range(200):
        outcomes = [float(x) for x in random.random(40) < 0.6]
        interval = percentile_interval(ratio_samples(outcomes, [1.0] * 40, cluster_draws(40, 400, run)))
        assert interval is not None
        covered += interval[0] <= 0.6 <= interval[1]
    assert 0.87 <= covered / 200 <= 0.99


def test_a_task_is_drawn_with_all_of_its_seeds() -> None:
    """Ten seeds that agree are no ten tasks: the interval must not shrink as if they were."""
    draws = cluster_draws(20, 2000, 3)
    once = percentile_interval(ratio_samples([1, 0] * 10, [1] * 20, draws))
    tenfold = percentile_interval(ratio_samples([10, 0] * 10, [10] * 20, draws))
    assert once == tenfold


def test_what_is_never_accepted_has_no_price() -> None:
    draws = cluster_draws(3, 100, 0)
    assert ratio([30, 30, 30], [0, 0, 0]) == inf
    assert percentile_interval(ratio_samples([30, 30, 30], [0, 0, 0], draws)) == (inf, inf)
    low, high = percentile_interval(ratio_samples([30, 30, 30], [1, 0, 0], draws)) or (0, 0)
    assert low < 90 < high == inf
    assert isnan(ratio([0, 0], [0, 0]))
    assert percentile_interval(ratio_samples([0, 0], [0, 0], cluster_draws(2, 50, 0))) is None


@given(st.lists(rates, min_size=1, max_size=6))
def test_adjusted_values_are_no_smaller_and_keep_their_order(p_values: list[float]) -> None:
    adjusted = holm(p_values)
    assert all(p <= q <= 1 for p, q in zip(p_values, adjusted, strict=True))
    assert adjusted[p_values.index(min(p_values))] == pytest.approx(min(1.0, len(p_values) * min(p_values)))
    ranked = [q for _, q in sorted(zip(p_values, adjusted, strict=True))]
    assert ranked == sorted(ranked)


def test_holm_on_a_textbook_case() -> None:
    assert holm([0.01, 0.04, 0.03, 0.005]) == pytest.approx([0.03, 0.06, 0.06, 0.02])
