from __future__ import annotations

from typing import Any

import orjson
import pytest
from hypothesis import given
from hypothesis import strategies as st

from envharness.core.errors import EnvHarnessError, SchemaVersionError, SpecError
from envharness.core.spec import MAX_DEPTH, ChainedNode, EnvironmentNode, StackNode, StackSpec, WrappedNode

json_values: st.SearchStrategy[Any] = st.recursive(
    st.none()
    | st.booleans()
    | st.integers(-(2**53), 2**53)
    | st.floats(allow_nan=False, allow_infinity=False)
    | st.text(),
    lambda children: st.lists(children, max_size=3) | st.dictionaries(st.text(), children, max_size=3),
    max_leaves=6,
)
json_objects = st.dictionaries(st.text(), json_values, max_size=3)
nodes: st.SearchStrategy[StackNode] = st.recursive(
    st.builds(EnvironmentNode, id=st.text(), options=json_objects, state=st.none() | json_objects),
    lambda inner: (
        st.builds(WrappedNode, component=st.text(), state=json_objects, inner=inner)
        | st.builds(ChainedNode, state=json_objects, segments=st.lists(inner, min_size=2, max_size=3).map(tuple))
    ),
    max_leaves=4,
)


@given(nodes)
def test_a_stack_survives_its_file(node: StackNode) -> None:
    spec = StackSpec(stack=node)
    assert StackSpec.from_json(spec.to_json()) == spec


@given(json_values)
def test_no_json_makes_the_reader_fail_in_another_way(value: Any) -> None:
    with pytest.raises(SpecError):
        StackSpec.from_data(value)


@given(st.binary(max_size=200))
def test_no_bytes_make_the_reader_fail_in_another_way(text: bytes) -> None:
    with pytest.raises(SpecError):
        StackSpec.from_json(text)


ROOM = {"kind": "environment", "id": "toy24"}


BROKEN: list[tuple[Any, str, str]] = [
    ([], "", "object"),
    ({}, "schema_version", "None"),
    ({"schema_version": 3, "stack": ROOM}, "schema_version", "3"),
    ({"schema_version": 2}, "stack", "NoneType"),
    ({"schema_version": 2, "stack": ROOM, "extra": 1}, "extra", "unknown key"),
    ({"schema_version": 2, "stack": {"kind": "mutated"}}, "stack.kind", "'mutated'"),
    ({"schema_version": 2, "stack": {"kind": "wrapped", "component": "stage"}}, "stack.inner", "NoneType"),
    ({"schema_version": 2, "stack": {"kind": "chained", "segments": [ROOM]}}, "stack.segments", "2"),
    ({"schema_version": 2, "stack": {"kind": "chained", "segments": ROOM}}, "stack.segments", "list"),
    ({"schema_version": 2, "stack": {"kind": "chained", "segments": [ROOM, 4]}}, "stack.segments[1]", "int"),
    ({"schema_version": 2, "stack": {**ROOM, "options": {"when": {1, 2}}}}, "stack.options.when", ""),
    ({"schema_version": 2, "stack": {**ROOM, "colour": "red"}}, "stack.colour", "permitted"),
    ({"schema_version": 1, "env": {"state": {}}}, "env.id", ""),
    ({"schema_version": 1, "env": {"type": "toy24", "state": {}}, "harnesses": [{"type": "link"}]}, "harnesses[0].type", "link"),
    ({"schema_version": 1, "env": {"type": "toy24", "state": {}}, "harnesses": [{"type": "rules", "state": {}}]}, "harnesses[0].state", "rules_code"),
]  # fmt: skip


@pytest.mark.parametrize(("data", "place", "words"), BROKEN)
def test_the_error_names_the_place(data: Any, place: str, words: str) -> None:
    with pytest.raises(SpecError) as caught:
        StackSpec.from_data(data)
    assert caught.value.place.startswith(place)
    assert words in str(caught.value)


def test_a_newer_schema_version_is_an_error_of_its_own() -> None:
    with pytest.raises(SchemaVersionError, match="reads 1 and 2"):
        StackSpec.from_data({"schema_version": 9, "stack": ROOM})


def test_a_hostile_depth_is_refused() -> None:
    node: dict[str, Any] = dict(ROOM)
    for _ in range(MAX_DEPTH + 1):
        node = {"kind": "wrapped", "component": "stage", "inner": node}
    with pytest.raises(SpecError, match="one above the other"):
        StackSpec.from_data({"schema_version": 2, "stack": node})


def test_the_older_checkpoint_form_is_read() -> None:
    older: dict[str, Any] = {
        "schema_version": 1,
        "env": {"type": "toy24", "state": {"task": "easy-0001"}},
        "harnesses": [
            {"type": "setup", "state": {"actions": [{"name": "stop", "kwargs": {}}]}},
            {"type": "rules", "state": {"rules_code": "class _Rules(Rules):\n    pass\n"}},
        ],
    }
    outer = StackSpec.from_json(orjson.dumps(older)).stack
    assert isinstance(outer, WrappedNode)
    assert outer.component == "contract"
    assert outer.state == {"source": "class _Rules(Rules):\n    pass\n"}
    assert isinstance(outer.inner, WrappedNode)
    assert outer.inner.component == "stage"
    assert outer.inner.inner == EnvironmentNode(id="toy24", state={"task": "easy-0001"})


@pytest.mark.parametrize(
    ("spec", "place"),
    [
        ({"kind": "environment", "id": "no-such"}, "stack.id"),
        ({"kind": "environment", "id": "kitchen:Kitchen", "options": {"no_such": 1}}, "stack.options"),
        ({"kind": "wrapped", "component": "no-such", "inner": {"kind": "environment", "id": "kitchen:Kitchen"}}, "stack.component"),
        ({"kind": "wrapped", "component": "stage", "inner": {"kind": "environment", "id": "kitchen:Kitchen"}}, "stack.state"),
    ],
)  # fmt: skip
def test_what_cannot_be_built_is_named(spec: dict[str, Any], place: str) -> None:
    with pytest.raises(EnvHarnessError, match=place.replace(".", r"\.")):
        StackSpec.from_data({"schema_version": 2, "stack": spec}).build()
