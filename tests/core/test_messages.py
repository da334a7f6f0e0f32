"""One-line messages: whatever an error or a text holds, one line comes of it."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import ValidationError

from envharness.core.messages import first_problem, one_line, printable
from envharness.core.types import Action, EvaluationResult


@pytest.mark.parametrize(
    ("error", "line"),
    [
        (ValueError("one\ntwo"), "one"),
        (ValueError(), "ValueError"),
        (ValueError("\ntwo"), "ValueError"),
        (KeyError("mug"), "'mug'"),
    ],
)
def test_an_error_is_its_first_line_or_its_name(error: Exception, line: str) -> None:
    assert one_line(error) == line


def test_a_validation_is_its_first_problem_with_its_place() -> None:
    with pytest.raises(ValidationError) as raised:
        EvaluationResult.model_validate({"success": True, "score": 2, "metrics": []})
    place, message = first_problem(raised.value)
    assert (place, one_line(raised.value)) == ("score", f"score: {message}")


def test_a_value_that_is_wrong_as_a_whole_has_no_place() -> None:
    with pytest.raises(ValidationError) as raised:
        Action.model_validate([])
    assert first_problem(raised.value)[0] == ""
    assert one_line(raised.value).startswith("Input should be")


def test_printable_keeps_ordinary_text() -> None:
    assert printable("Übung 24: a/b — ok") == "Übung 24: a/b — ok"
    assert printable("a\nb\tc\x1b[2J") == "a\\nb\\tc\\x1b[2J"


@given(st.text(st.characters(exclude_categories=())))
def test_nothing_in_a_printable_text_acts(text: str) -> None:
    assert printable(text).isprintable()
