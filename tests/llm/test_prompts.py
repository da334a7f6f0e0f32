from __future__ import annotations

import pytest

from envharness.llm.prompts import fill_prompt

FORMATS = "envharness.policies.formats"


def test_what_a_value_holds_is_no_place_to_fill_in() -> None:
    """Descriptions of tools, and skills, are written by others and may hold anything."""
    filled = fill_prompt(FORMATS, "text", example="$tools {tools}", tools="costs $example")
    assert "$tools {tools}" in filled
    assert filled.endswith("costs $example")


def test_a_place_without_a_value_is_an_error() -> None:
    with pytest.raises(KeyError):
        fill_prompt(FORMATS, "text", example="x")
