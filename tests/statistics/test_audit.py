from __future__ import annotations

from dataclasses import replace
from math import comb

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from envharness.statistics.audit import LARGEST_THRESHOLD, Audit, attainable, audit, ceiling, raised
from envharness.statistics.beta import BetaPosterior

BAND = (0.4, 0.6)
ceiling(2, BAND)
# The first use imports scipy, which no example of a property is to be timed with.

counts = st.lists(
    st.integers(0, 60).flatmap(lambda n: st.tuples(st.integers(0, n), st.just(n))), min_size=1, max_size=8
)


def _audited(rates: list[float], rollouts: int, seed: int = 1) -> Audit:
    draws = np.random.default_rng(seed)
    found = audit([(int(draws.binomial(rollouts, rate)), rollouts) for rate in rates], BAND)
    assert found is not None
    return found


def test_the_ceiling_is_what_is_known_of_it() -> None:
    assert ceiling(100, BAND) == pytest.approx(0.849, abs=1e-3)
    assert ceiling(40, BAND) == pytest.approx(0.643, abs=1e-3)
    by_hand = sum(comb(12, won) / 2**12 * BetaPosterior(won, 12).mass(BAND) for won in range(13))
    assert ceiling(12, BAND) == pytest.approx(by_hand, abs=1e-9)


def test_more_rollouts_and_more_tasks_can_show_more() -> None:
    assert ceiling(40, BAND) < ceiling(100, BAND) < ceiling(400, BAND) < 1
    assert attainable(24, 40, BAND) < attainable(24, 100, BAND) < 1
    assert attainable(8, 100, BAND) < attainable(60, 100, BAND) < 1
    assert attainable(24, 40, BAND) > ceiling(40, BAND)


@settings(max_examples=12, deadline=None)
@given(counts)
def test_an_audit_is_made_of_probabilities_and_repeats(seen: list[tuple[int, int]]) -> None:
    found = audit(seen, BAND)
    if found is None:
        assert not any(played for _, played in seen)
        return
    assert len(found.in_band) == found.tasks == len(seen)
    assert all(0.0 <= mass <= 1.0 for mass in found.in_band)
    assert found.share == pytest.approx(sum(found.in_band) / len(seen))
    assert 0.0 <= found.low <= found.share <= found.high <= 1.0
    assert found == audit(seen, BAND)


def test_a_task_without_rollouts_neither_helps_nor_harms_the_others() -> None:
    alone, beside = audit([(20, 40), (35, 40)], BAND), audit([(20, 40), (35, 40), (0, 0)], BAND)
    assert alone is not None
    assert beside is not None
    assert beside.in_band[:2] == pytest.approx(alone.in_band, abs=0.02)


def test_the_share_is_found_with_a_mild_lean_to_caution() -> None:
    # 45 of 60 in band; the others at cliffs, flats and just outside.
    rates = [*np.linspace(0.43, 0.57, 45).tolist(), *[0.97] * 6, *[0.05] * 3, *[0.72] * 3, *[0.28] * 3]
    shares = [_audited(rates, 100, seed).share for seed in range(3)]
    assert 0.68 < np.mean(shares) < 0.78
    found = _audited(rates, 100)
    assert found.low < 0.75 < found.high
    assert max(found.in_band[45:54]) < 0.01


def test_observed_rates_are_not_the_truth() -> None:
    # All of them at 0.5: five fresh rollouts show 62.5 % in band, an audit of 40 knows better.
    shown = 20 / 32
    assert _audited([0.5] * 40, 40).share > shown + 0.2
    # None of them in band, two in five shown: luck is recognised as luck where there are many tasks.
    assert _audited([0.68] * 60, 40).share < 0.1


def test_nothing_played_is_no_audit() -> None:
    assert audit([], BAND) is None
    assert audit([(0, 0)], BAND) is None
    with pytest.raises(ValueError, match="successes"):
        audit([(3, 2)], BAND)


AUDITED = Audit(share=0.7, low=0.6, high=0.8, ceiling=0.85, attainable=0.96, tasks=40, rollouts=100, in_band=())


def test_a_threshold_rises_where_the_audit_falls_short_of_the_claim() -> None:
    # Claimed .94, which would show as .90: false accepts are three times as frequent, so twice as strict in one step.
    assert raised(0.9, claimed=0.94, audited=AUDITED) == pytest.approx(0.95)
    # Within the interval of what the claim would show: noise.
    assert raised(0.9, claimed=0.82, audited=AUDITED) == 0.9
    assert raised(0.985, claimed=0.99, audited=AUDITED) == LARGEST_THRESHOLD


unit = st.floats(0.01, 0.99)


@given(unit, unit, st.tuples(unit, unit, unit).map(sorted), unit)
def test_a_threshold_never_falls_and_stays_bounded(
    threshold: float, claimed: float, ends: list[float], most: float
) -> None:
    audited = replace(AUDITED, low=ends[0], share=ends[1], high=ends[2], attainable=most)
    after = raised(threshold, claimed=claimed, audited=audited)
    assert threshold <= after <= max(LARGEST_THRESHOLD, threshold)
    assert 1 - after >= (1 - threshold) / 2 - 1e-12
