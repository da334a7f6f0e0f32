"""Copies by way of JSON: they prove that a value is JSON, and nobody else holds them.

Most values are copied part by part, which costs a tenth. That is done only where every part is of exactly the type that
JSON gives back: whatever looks odd goes through text, so that there is one answer to what it becomes or why it fails.
"""

from __future__ import annotations

from collections.abc import Callable
from math import isfinite
from typing import Any, TypeVar, cast

from pydantic import BaseModel, JsonValue

from envharness.core.known import known
from envharness.core.policy import Decision
from envharness.core.types import Action, EnvResponse, JsonDict, Observation
from envharness.core.usage import NO_USAGE, Usage

Model = TypeVar("Model", bound=BaseModel)

_DEPTH = 50
"""Deeper values go through text, which knows its own limits."""
_LEAST, _MOST = -(1 << 63), (1 << 64) - 1
"""Integers that every JSON codec keeps."""
_TEXT = {str}


class _OddError(Exception):
    """Something in a value that may not come back from JSON as it is."""


def json_copy(kind: type[Model], model: Model) -> Model:
    """Return a copy by way of JSON, of `kind` itself where `model` is of a subclass.

    Raises PydanticSerializationError for what is not JSON, ValidationError for what does not fit the type.
    """
    copied = plain_copy(kind, model)
    return kind.model_validate_json(model.model_dump_json(warnings="error")) if copied is None else copied


def plain_copy(kind: type[Model], model: object) -> Model | None:
    """Return the copy that JSON would give, or None where only JSON itself can tell what that is."""
    copier = _COPIERS.get(kind)
    if copier is None or type(model) is not kind:
        return None
    try:
        return cast("Model", copier(model))
    except (_OddError, KeyError):  # a field may be missing
        return None


def copied_object(value: dict[str, JsonValue]) -> dict[str, JsonValue]:
    """Copy what JSON is made of, and leave anything else as it is: it is found when the trace is written."""
    return {key: item if type(item) in _ATOMS else _copied_value(item) for key, item in value.items()}


_ATOMS = frozenset({str, int, float, bool, type(None)})


def _copied_value(value: JsonValue) -> JsonValue:
    if isinstance(value, dict):
        return copied_object(value)
    if isinstance(value, list):
        return [item if type(item) in _ATOMS else _copied_value(item) for item in value]
    return value


# --- part by part ----------------------------------------------------------------------------------------------------


def _text(value: object) -> str:
    if type(value) is not str:
        raise _OddError
    if not value.isascii():
        try:
            value.encode()
        except UnicodeEncodeError:
            raise _OddError from None  # half a surrogate pair
    return value


def _object(value: object, depth: int = _DEPTH) -> JsonDict:
    if type(value) is not dict or not depth:
        raise _OddError
    copied = cast("dict[Any, Any]", value).copy()  # first, so that what is checked is what is kept
    for key, item in copied.items():
        if type(key) is not str or not key.isascii():
            _text(key)
        if type(item) is not str or not item.isascii():
            copied[key] = _item(item, depth)
    return copied


def _array(value: list[Any], depth: int) -> list[Any]:
    if not depth:
        raise _OddError
    copied = value.copy()
    if set(map(type, copied)) == _TEXT and "".join(copied).isascii():
        return copied
    for index, item in enumerate(copied):
        copied[index] = _item(item, depth)
    return copied


def _item(value: Any, depth: int) -> Any:
    kind = cast("type[Any]", type(value))
    if kind is int:
        if not _LEAST <= value <= _MOST:
            raise _OddError
    elif kind is list:
        return _array(value, depth - 1)
    elif kind is dict:
        return _object(value, depth - 1)
    elif kind is str:
        return _text(value)
    elif kind is float:
        if not isfinite(value):
            raise _OddError
    elif kind is not bool and value is not None:
        raise _OddError
    return value


def _fields(model: object, kind: type[BaseModel], count: int) -> dict[str, Any]:
    if type(model) is not kind:
        raise _OddError
    fields = vars(model)
    if len(fields) != count:
        raise _OddError
    return fields


def _observation(model: object) -> Observation:
    fields = _fields(model, Observation, 2)
    return known(Observation, {"text": _text(fields["text"]), "data": _object(fields["data"])})


def _response(model: object) -> EnvResponse:
    fields = _fields(model, EnvResponse, 5)
    reward, terminated, truncated = fields["reward"], fields["terminated"], fields["truncated"]
    if type(reward) is not float or not isfinite(reward) or type(terminated) is not bool or type(truncated) is not bool:
        raise _OddError
    return known(
        EnvResponse,
        {
            "observation": _observation(fields["observation"]),
            "reward": reward,
            "terminated": terminated,
            "truncated": truncated,
            "info": _object(fields["info"]),
        },
    )


def _action(model: object) -> Action:
    fields = _fields(model, Action, 3)
    replayed = fields["replayed"]
    if type(replayed) is not bool:
        raise _OddError
    return known(Action, {"name": _text(fields["name"]), "kwargs": _object(fields["kwargs"]), "replayed": replayed})


def _usage(model: object) -> Usage:
    fields = _fields(model, Usage, len(_USAGE)).copy()
    if [type(fields[name]) for name in _USAGE] != _USAGE_TYPES:
        raise _OddError
    if fields == _USAGE:
        return NO_USAGE  # most policies call no model
    if not isfinite(fields["cost"]) or min(fields.values()) < 0 or max(fields.values()) > _MOST:
        raise _OddError
    return known(Usage, fields)


_USAGE = vars(NO_USAGE)
_USAGE_TYPES: list[type[object]] = [type(value) for value in _USAGE.values()]


def _decision(model: object) -> Decision:
    fields = _fields(model, Decision, 5)
    action, stop = fields["action"], fields["stop"]
    if type(stop) is not bool:
        raise _OddError
    return known(
        Decision,
        {
            "action": None if action is None else _action(action),
            "problem": _text(fields["problem"]),
            "stop": stop,
            "text": _text(fields["text"]),
            "usage": _usage(fields["usage"]),
        },
    )


_COPIERS: dict[type[BaseModel], Callable[[object], BaseModel]] = {
    Action: _action,
    Decision: _decision,
    EnvResponse: _response,
    Observation: _observation,
    Usage: _usage,
}
