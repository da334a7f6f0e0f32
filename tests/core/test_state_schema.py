from __future__ import annotations

from typing import Any

import pytest

from envharness.core.errors import SpecError
from envharness.core.state_schema import state_violations

SCHEMA = """
numbers: list[int] - what is left
  an indented line is prose: anything
holding: str | null - the object in hand
score: float
places: dict[list[str] | null] - what is where
done: bool - over
note?: any - only sometimes
"""
GOOD: dict[str, Any] = {
    "numbers": [1, 2],
    "holding": None,
    "score": 1,
    "places": {"a": ["b"], "c": None},
    "done": False,
}


def state(**changes: Any) -> dict[str, Any]:
    return GOOD | changes


def test_a_state_that_keeps_to_its_description() -> None:
    assert state_violations(SCHEMA, GOOD) == []
    assert state_violations(SCHEMA, state(note={"x": [1]}, holding="cup", score=0.5)) == []


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"numbers": [1, "2"]}, "'numbers' is described as list[int]"),
        ({"numbers": [True]}, "'numbers'"),
        ({"holding": 3}, "'holding'"),
        ({"done": 1}, "'done'"),
        ({"places": {"a": [1]}}, "'places'"),
        ({"secret": 1}, "'secret' is in the state but not described"),
    ],
)
def test_a_departure_is_named(change: dict[str, Any], words: str) -> None:
    (problem,) = state_violations(SCHEMA, state(**change))
    assert words in problem


def test_a_missing_key_is_named() -> None:
    rest = {key: value for key, value in GOOD.items() if key != "score"}
    assert state_violations(SCHEMA, rest) == ["'score' is described but missing"]


@pytest.mark.parametrize("text", ["numbers list of ints", "numbers: list[number]", "a b: int"])
def test_a_description_that_does_not_parse_is_the_authors_error(text: str) -> None:
    with pytest.raises(SpecError, match="env_state_schema"):
        state_violations(text, {"numbers": []})
