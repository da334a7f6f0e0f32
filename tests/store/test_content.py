from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as some
from pydantic import JsonValue

from envharness.core.canonical import canonical_json
from envharness.store.content import record_content

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
