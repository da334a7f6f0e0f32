from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from envharness.statistics.intervals import paired_difference, wilson


@given(st.integers(0, 500), st.integers(0, 500))
def test_wilson_holds_the_share_and_stays_in_range(successes: int, failures: int) -> None:
    trials = successes + failures
    low, high = wilson(successes, trials)
    assert 0.0 <= low <= high <= 1.0
    if trials:
        assert low <= successes / trials <= high


def test_wilson_agrees_with_published_values() -> None:
    # Newcombe 1998, table I: 81 of 263 and 0 of 20.
    assert wilson(81, 263) == pytest.approx((0.2553, 0.3662), abs=5e-5)
    assert wilson(0, 20) == pytest.approx((0.0, 0.1611), abs=5e-5)
    assert wilson(0, 0) == (0.0, 1.0)


count = st.integers(0, 120)


@given(count, count, count, count)
def test_the_paired_difference_holds_the_gap_and_turns_with_its_sides(
    both: int, first_only: int, second_only: int, neither: int
) -> None:
    low, high = paired_difference(both, first_only, second_only, neither)
    assert -1.0 <= low <= high <= 1.0
    if pairs := both + first_only + second_only + neither:
        assert low - 1e-12 <= (first_only - second_only) / pairs <= high + 1e-12
    assert paired_difference(both, second_only, first_only, neither) == pytest.approx((-high, -low))


def test_the_paired_difference_agrees_with_published_values() -> None:
    # Altman, Machin, Bryant and Gardner, Statistics with Confidence, 2000, chapter 6: 14, 5, 0, 22.
    assert paired_difference(14, 5, 0, 22) == pytest.approx((0.011, 0.226), abs=5e-4)


def test_pairs_that_always_agree_say_more_than_two_samples_would() -> None:
    low, high = paired_difference(200, 0, 0, 40)
    assert high - low < 0.05
    assert paired_difference(0, 0, 0, 0) == (-1.0, 1.0)
