"""The copy that is made part by part is the one that JSON gives, or none is made."""

from __future__ import annotations

import enum
from collections.abc import Iterator
from typing import Any, cast

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import BaseModel, ValidationError
from pydantic_core import PydanticSerializationError

from envharness.core.json_copy import copied_object, json_copy, plain_copy
from envharness.core.known import known
from envharness.core.policy import Decision, Turn
from envharness.core.trace import Exchange, TraceStep
from envharness.core.types import Action, EnvResponse, Observation, ToolSchema
from envharness.core.usage import NO_USAGE, Usage


class Text(str):
    __slots__ = ()


class Colour(enum.IntEnum):
    RED = 1


class Wider(Observation):
    more: int = 1


TEXTS = st.text(st.characters(exclude_categories=()), max_size=8)  # half surrogate pairs, too
PLAIN = st.recursive(
    st.none()
    | st.booleans()
    | st.integers(-(2**63), 2**64 - 1)
    | st.floats(allow_nan=False, allow_infinity=False)
    | st.text(max_size=8),
    lambda items: st.lists(items, max_size=4) | st.dictionaries(st.text(max_size=4), items, max_size=4),
    max_leaves=12,
)
PLAIN_OBJECTS = st.dictionaries(st.text(max_size=4), PLAIN, max_size=4)
ODD: st.SearchStrategy[Any] = st.recursive(
    PLAIN | st.floats() | st.integers() | TEXTS | st.builds(Text, TEXTS) | st.just(Colour.RED) | st.builds(object),
    lambda items: (
        st.lists(items, max_size=3)
        | st.tuples(items)
        | st.dictionaries(TEXTS | st.integers() | st.builds(Text, TEXTS), items, max_size=3)
    ),
    max_leaves=6,
)


def models(values: st.SearchStrategy[Any], objects: st.SearchStrategy[Any], odd: bool) -> st.SearchStrategy[BaseModel]:
    """Models of every kind that is copied part by part, made without validation."""

    def either(plain: st.SearchStrategy[Any]) -> st.SearchStrategy[Any]:
        return plain | values if odd else plain

    def made(kind: type[BaseModel], **fields: st.SearchStrategy[Any]) -> st.SearchStrategy[Any]:
        return st.fixed_dictionaries(fields).map(lambda values: kind.model_construct(None, **values))

    texts, flags, counts = either(st.text(max_size=8)), either(st.booleans()), either(st.integers(0, 2**40))
    observations = made(Observation, text=texts, data=objects)
    numbers = either(st.floats(allow_nan=odd, allow_infinity=odd))
    actions = made(Action, name=texts, kwargs=objects, replayed=flags)
    usages = st.just(Usage()) | made(
        Usage,
        calls=counts,
        prompt=counts,
        cached=counts,
        completion=counts,
        reasoning=counts,
        cost=either(st.floats(0, 1e9)),
    )
    responses = made(
        EnvResponse,
        observation=either(observations),
        reward=numbers,
        terminated=flags,
        truncated=flags,
        info=objects,
    )
    decisions = made(
        Decision,
        action=either(st.none() | actions),
        problem=texts,
        stop=flags,
        text=texts,
        usage=either(usages),
    )
    return observations | actions | usages | responses | decisions


def parts(value: Any) -> Iterator[Any]:
    """The value as a sequence in which any difference shows, of type or of sign or of order."""
    yield type(value)
    if isinstance(value, BaseModel):
        yield from parts(vars(value))
    elif isinstance(value, dict):
        for key, item in cast("dict[Any, Any]", value).items():
            yield key
            yield from parts(item)
        yield "end"
    elif isinstance(value, list):
        for item in cast("list[Any]", value):
            yield from parts(item)
        yield "end"
    else:
        yield repr(value)


def containers(value: Any) -> Iterator[int]:
    if isinstance(value, BaseModel):
        value = vars(value)
    if isinstance(value, dict):
        yield id(cast("object", value))
        for item in cast("dict[Any, Any]", value).values():
            yield from containers(item)
    elif isinstance(value, list):
        yield id(cast("object", value))
        for item in cast("list[Any]", value):
            yield from containers(item)


def through_text(model: BaseModel) -> BaseModel:
    return type(model).model_validate_json(model.model_dump_json(warnings="error"))


@given(models(ODD, ODD, odd=True))
def test_what_is_copied_part_by_part_is_what_json_gives(model: BaseModel) -> None:
    copied = plain_copy(type(model), model)
    if copied is not None:
        assert list(parts(copied)) == list(parts(through_text(model)))


@given(models(PLAIN, PLAIN_OBJECTS, odd=False))
def test_what_is_plain_is_copied_part_by_part_and_shares_nothing(model: BaseModel) -> None:
    copied = plain_copy(type(model), model)
    assert copied is not None
    assert list(parts(copied)) == list(parts(through_text(model))) == list(parts(model))
    assert not set(containers(copied)) & set(containers(model)) - {id(vars(NO_USAGE))}


@pytest.mark.parametrize(
    "data",
    [
        {"x": float("nan")},
        {"x": [float("inf")]},
        {"x": "\ud800"},
        {"\udfff": 1},
        {"x": ["plain", "\ud800"]},
        {"x": 1 << 64},
        {"x": [-(1 << 63) - 1]},
        {"x": Colour.RED},
        {"x": (1, 2)},
        {"x": Text("x")},
        {Text("x"): 1},
        {1: 2},
        {"x": object()},
        {"x": b"bytes"},
    ],
)
def test_what_is_odd_is_left_to_json(data: Any) -> None:
    model = Observation.model_construct(None, text="", data=data)
    assert plain_copy(Observation, model) is None
    try:
        expected = through_text(model)
    except (ValidationError, PydanticSerializationError) as error:
        with pytest.raises(type(error)):
            json_copy(Observation, model)
    else:
        assert list(parts(json_copy(Observation, model))) == list(parts(expected))


def test_what_refers_to_itself_is_left_to_json() -> None:
    circle: dict[str, Any] = {}
    circle["x"] = [circle]
    model = Observation.model_construct(None, text="", data=circle)
    assert plain_copy(Observation, model) is None
    with pytest.raises(PydanticSerializationError):
        json_copy(Observation, model)


@pytest.mark.parametrize(
    "odd",
    [
        Wider(text="", data={}),
        Observation.model_construct(None, text="", data=None),
        {"text": "", "data": {}},
        Action(name="look"),
    ],
)
def test_what_is_not_the_model_itself_is_left_to_json(odd: Any) -> None:
    assert plain_copy(Observation, odd) is None


def test_a_model_without_one_of_its_fields_is_left_to_json() -> None:
    model = Observation(text="")
    del vars(model)["data"]
    assert plain_copy(Observation, model) is None
    vars(model)["more"] = {}
    assert plain_copy(Observation, model) is None


def test_a_model_that_was_added_to_is_left_to_json() -> None:
    model = Observation(text="")
    vars(model)["more"] = 1
    assert plain_copy(Observation, model) is None


@pytest.mark.parametrize(
    "fields", [{"calls": -1}, {"calls": True}, {"cost": float("nan")}, {"cost": 1}, {"cost": -0.5}]
)
def test_usage_that_is_none_is_left_to_json(fields: dict[str, Any]) -> None:
    assert plain_copy(Usage, Usage().model_copy(update=fields)) is None


@given(ODD)
def test_the_copy_for_a_trace_keeps_what_it_does_not_know(value: Any) -> None:
    copied = copied_object({"x": value})
    assert copied == {"x": value} or value != value or "nan" in repr(value)  # noqa: PLR0124  NaN differs from itself


def test_known_models_equal_validated_ones() -> None:
    observation, action = Observation(text="a", data={"b": [1]}), Action(name="go", kwargs={"x": 1})
    values: list[tuple[type[BaseModel], dict[str, Any]]] = [
        (Observation, {"text": "a", "data": {"b": [1]}}),
        (Turn, {"observation": observation, "tools": (ToolSchema(name="go"),), "step": 3}),
        (Exchange, {"segment": "0", "action": action, "response": EnvResponse(observation=observation)}),
        (Usage, vars(Usage(calls=1, cost=0.5)).copy()),
        (TraceStep, vars(TraceStep(step=1, action=action, shown=observation)).copy()),
    ]
    for kind, fields in values:
        made, validated = known(kind, dict(fields)), kind(**fields)
        assert made == validated
        assert list(parts(made)) == list(parts(validated))
        assert made.model_dump_json() == validated.model_dump_json()
        assert made.model_copy(deep=True) == validated
        assert made.model_fields_set == validated.model_fields_set


def test_models_of_a_kind_stay_apart() -> None:
    first = known(Observation, {"text": "a", "data": {}})
    second = known(Observation, {"text": "b", "data": {}})
    first.text = "c"
    assert second.text == "b"
    assert second.model_fields_set == {"text", "data"}
