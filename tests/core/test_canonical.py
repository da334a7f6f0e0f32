"""Canonical JSON: equal values are equal text, whatever their integers and the order of their keys."""

from __future__ import annotations

import json
from typing import cast

import pytest
from hypothesis import given
from hypothesis import strategies as some
from pydantic import JsonValue

from envharness.core.canonical import canonical_json, digest

values = some.recursive(
    some.none() | some.booleans() | some.integers() | some.text() | some.floats(allow_nan=False, allow_infinity=False),
    lambda inner: some.lists(inner) | some.dictionaries(some.text(), inner),
    max_leaves=20,
)


@given(values)
def test_equal_values_are_equal_text_whatever_the_order_of_keys(value: JsonValue) -> None:
    text = canonical_json(value)
    assert json.loads(text) == value
    assert canonical_json(_reversed(value)) == text


def test_a_digest_is_of_the_value_not_of_the_order_of_keys() -> None:
    assert digest({"a": 2**80, "b": ["é"]}) == digest({"b": ["é"], "a": 2**80})
    assert digest({"a": 1}) != digest({"a": "1"})
    assert len(digest(None, 16)) == 16


def test_nan_is_no_content() -> None:
    with pytest.raises(ValueError, match="not JSON compliant"):
        canonical_json(float("nan"))


def _reversed(value: JsonValue) -> JsonValue:
    if isinstance(value, dict):
        return {key: _reversed(item) for key, item in reversed(value.items())}
    return cast("JsonValue", [_reversed(item) for item in value]) if isinstance(value, list) else value
