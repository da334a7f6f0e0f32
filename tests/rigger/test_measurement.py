from __future__ import annotations

import random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from envharness.rigger.measurement import component_fault, in_band, lost_to_limits, measure
from rigger.build import batch, episode, measured, mix, step

BAND = (0.4, 0.6)


def test_rates_are_over_valid_rollouts_and_a_gap_makes_it_incomplete() -> None:
    episodes = [*batch(2, 3), episode(index=3, invalid="policy_error")]
    figures = measure(episodes, ["a", "b", "c", "d"])
    assert (figures.asked, figures.valid, figures.successes) == (4, 3, 2)
    assert figures.success_rate == pytest.approx(2 / 3)
    assert not figures.complete
    assert not in_band(figures.model_copy(update={"successes": 1, "valid": 2}), BAND)


@given(st.integers(1, 12), st.integers(0, 1000))
def test_a_measurement_does_not_depend_on_the_order_of_arrival(count: int, seed: int) -> None:
    episodes = batch(count // 2, count)
    keys = [f"k{index}" for index in range(count)]
    shuffled = random.Random(seed).sample(episodes, count)
    assert measure(shuffled, keys) == measure(episodes, keys)


@pytest.mark.parametrize(("successes", "inside"), [(1, False), (2, True), (3, True), (4, False)])
def test_the_ends_of_the_band_belong_to_it(successes: int, inside: bool) -> None:
    assert in_band(measured(successes), BAND) is inside


def test_no_valid_rollout_is_no_rate() -> None:
    figures = measure([episode(invalid="time_limit")], ["a"])
    assert figures.success_rate is None
    assert not in_band(figures, (0.0, 1.0))
    assert not lost_to_limits(figures)


def test_unsolvable_is_read_from_step_limits_and_blocks_only() -> None:
    assert lost_to_limits(measure(batch(0, 3, out_of_steps=True), ["a", "b", "c"]))
    assert not lost_to_limits(measure(batch(0, 3), ["a", "b", "c"]))
    assert not lost_to_limits(measure(batch(1, 3, out_of_steps=True), ["a", "b", "c"]))
    blocked = [episode([step(0, mix("1"), blocked="no"), mix("1")], index=i) for i in range(2)]
    assert lost_to_limits(measure(blocked, ["a", "b"]))


def test_one_component_fault_is_found_wherever_it_is() -> None:
    assert component_fault(batch(1, 2)) == ""
    faulty = [episode(index=1, invalid="component_fault", detail="hook load: line 3"), *batch(1, 1)]
    assert component_fault(faulty) == "rollout 1: hook load: line 3"
