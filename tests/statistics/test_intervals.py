from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from envharness.statistics.intervals import difference, wilson


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


counts = st.tuples(st.integers(0, 200), st.integers(0, 200)).map(lambda pair: (pair[0], pair[0] + pair[1]))


@given(counts, counts)
def test_the_difference_holds_the_gap_and_turns_with_its_sides(first: tuple[int, int], second: tuple[int, int]) -> None:
    low, high = difference(first, second)
    assert -1.0 <= low <= high <= 1.0
    if first[1] and second[1]:
        assert low <= first[0] / first[1] - second[0] / second[1] <= high
    assert difference(second, first) == pytest.approx((-high, -low))


def test_the_difference_agrees_with_published_values() -> None:
    # Newcombe 1998 (comparison of eleven methods), table II, method 10: contrasts a, b and h.
    assert difference((56, 70), (48, 80)) == pytest.approx((0.0524, 0.3339), abs=5e-5)
    assert difference((9, 10), (3, 10)) == pytest.approx((0.1705, 0.8090), abs=5e-5)
    assert difference((10, 10), (0, 20)) == pytest.approx((0.6791, 1.0), abs=5e-5)
