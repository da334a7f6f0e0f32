from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from envharness.rigger.objectives import SuccessBand
from envharness.rigger.records import Direction, Measurement
from rigger.build import measured

BAND = SuccessBand(0.4, 0.6)


@pytest.mark.parametrize(
    ("successes", "direction"), [(0, "scaffold"), (1, "scaffold"), (2, None), (3, None), (4, "harden"), (5, "harden")]
)
def test_direction_follows_from_the_rate(successes: int, direction: Direction | None) -> None:
    assert BAND.direction(measured(successes)) == direction


@pytest.mark.parametrize(
    ("direction", "before", "after", "name"),
    [
        ("harden", 5, 5, "no_movement"),
        ("harden", 5, 4, "too_easy"),
        ("harden", 5, 3, "in_band"),
        ("harden", 5, 1, "too_hard"),
        ("harden", 4, 5, "no_movement"),
        ("scaffold", 0, 0, "no_movement"),
        ("scaffold", 0, 1, "too_hard"),
        ("scaffold", 0, 2, "in_band"),
        ("scaffold", 0, 5, "too_easy"),
        ("scaffold", 1, 0, "no_movement"),
        ("sharpen", 3, 2, "in_band"),
        ("sharpen", 3, 5, "no_movement"),
        ("sharpen", 3, 1, "too_hard"),
    ],
)
def test_verdicts(direction: Direction, before: int, after: int, name: str) -> None:
    assert BAND.judge(measured(before), measured(after), direction).name == name


def test_losses_to_limits_alone_ask_for_loosening() -> None:
    verdict = BAND.judge(measured(5), measured(0, out_of_steps=5), "harden")
    assert verdict.name == "unsolvable"
    assert "loosen" in verdict.feedback
    # A policy that ran out of steps before anything was changed does not make a scaffold unsolvable.
    assert BAND.judge(measured(0, out_of_steps=5), measured(0, out_of_steps=5), "scaffold").name == "no_movement"


def test_feedback_says_which_way() -> None:
    assert "more help" in BAND.judge(measured(0), measured(1), "scaffold").feedback
    assert "less help" in BAND.judge(measured(0), measured(5), "scaffold").feedback
    assert "less of it" in BAND.judge(measured(5), measured(1), "harden").feedback


@given(st.integers(0, 5), st.integers(0, 4), st.sampled_from(["harden", "scaffold", "sharpen"]))
def test_an_incomplete_batch_is_never_decided_upon(successes: int, valid: int, direction: Direction) -> None:
    after = Measurement(asked=5, valid=valid, successes=min(successes, valid))
    verdict = BAND.judge(measured(5), after, direction)
    assert verdict.name == "incomplete"
    assert not verdict.accepts


@given(st.integers(0, 20), st.sampled_from(["harden", "scaffold", "sharpen"]), st.integers(0, 20))
def test_only_a_rate_in_the_band_is_accepted(after: int, direction: Direction, before: int) -> None:
    verdict = BAND.judge(measured(before, 20), measured(after, 20), direction)
    assert verdict.accepts == (8 <= after <= 12)
