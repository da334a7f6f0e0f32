from __future__ import annotations

from math import comb

import pytest
from hypothesis import given
from hypothesis import strategies as st

from envharness.statistics.beta import BetaPosterior

BetaPosterior(1, 2).interval()
# The first use imports scipy, which no example of a property is to be timed with.

counts = st.integers(0, 60).flatmap(lambda n: st.tuples(st.integers(0, n), st.just(n)))
rates = st.floats(0, 1)


@given(counts, rates, rates)
def test_the_masses_of_parts_add_up_to_one(seen: tuple[int, int], first: float, second: float) -> None:
    posterior = BetaPosterior(*seen)
    low, high = sorted((first, second))
    parts = [posterior.mass(band) for band in ((0.0, low), (low, high), (high, 1.0))]
    assert all(0.0 <= part <= 1.0 for part in parts)
    assert sum(parts) == pytest.approx(1.0, abs=1e-9)


@given(counts, st.floats(0.01, 0.99))
def test_the_flat_posterior_is_a_binomial_tail(seen: tuple[int, int], rate: float) -> None:
    # Bayes, 1763: the posterior mass below x after s of n is the chance of more than s successes in n + 1 at rate x.
    won, trials = seen
    tail = sum(comb(trials + 1, k) * rate**k * (1 - rate) ** (trials + 1 - k) for k in range(won + 1, trials + 2))
    assert BetaPosterior(won, trials).mass((0.0, rate)) == pytest.approx(tail, abs=1e-9)


@given(counts, st.floats(0.05, 0.99))
def test_an_interval_holds_what_it_says(seen: tuple[int, int], level: float) -> None:
    posterior = BetaPosterior(*seen)
    low, high = posterior.interval(level)
    assert 0.0 <= low < high <= 1.0
    assert posterior.mass((low, high)) == pytest.approx(level, abs=1e-6)
    assert posterior.mass((0.0, low)) == pytest.approx((1 - level) / 2, abs=1e-6)


def test_five_of_ten_are_no_proof_of_the_band() -> None:
    # The method's K = 5 with 2 or 3 wins: well under one half.
    assert BetaPosterior(3, 5).mass((0.4, 0.6)) == pytest.approx(0.3651, abs=1e-4)
    assert BetaPosterior(50, 100).mass((0.4, 0.6)) > 0.95


@pytest.mark.parametrize(("won", "trials"), [(-1, 3), (4, 3), (0, -1)])
def test_impossible_counts_are_refused(won: int, trials: int) -> None:
    with pytest.raises(ValueError, match="successes of"):
        BetaPosterior(won, trials)


def test_an_empty_band_holds_nothing() -> None:
    assert BetaPosterior(2, 4).mass((0.6, 0.4)) == 0.0
