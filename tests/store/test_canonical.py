from __future__ import annotations

import json
from typing import cast

import pytest
from hypothesis import given
from hypothesis import strategies as some
from pydantic import JsonValue

from envharness.store.canonical import canonical_json, record_content

values = some.recursive(
    some.none() | some.booleans() | some.integers() | some.text() | some.floats(allow_nan=False, allow_infinity=False),
    lambda inner: (
        some.lists(inner)
        | some.dictionaries(
            some.sampled_from(["a", "seconds", "env_seconds", "worker", "attempt", "run_dir", "z"]), inner
        )
    ),
    max_leaves=20,
)


@given(values)
def test_equal_values_are_equal_text_whatever_the_order_of_keys(value: JsonValue) -> None:
    text = canonical_json(value)
    assert json.loads(text) == value
    assert canonical_json(_reversed(value)) == text


@given(values)
def test_content_has_no_circumstances_and_keeps_everything_else(value: JsonValue) -> None:
    content = record_content(value)
    text = canonical_json(content)
    assert record_content(content) == content
    for name in ("seconds", "env_seconds", "worker", "attempt", "run_dir"):
        assert f'"{name}":' not in text
    if not any(
        f'"{name}"' in canonical_json(value) for name in ("seconds", "env_seconds", "worker", "attempt", "run_dir")
    ):
        assert content == value


def test_nan_is_no_content() -> None:
    with pytest.raises(ValueError, match="not JSON compliant"):
        canonical_json(float("nan"))


def _reversed(value: JsonValue) -> JsonValue:
    if isinstance(value, dict):
        return {key: _reversed(item) for key, item in reversed(value.items())}
    return cast("JsonValue", [_reversed(item) for item in value]) if isinstance(value, list) else value
