"""What a policy answered, as plain JSON that fits the types: whatever it really returned goes no further than here."""

from __future__ import annotations

from math import inf

import orjson
from pydantic import JsonValue, ValidationError
from pydantic_core import PydanticSerializationError

from envharness.core.json_copy import plain_copy
from envharness.core.messages import one_line
from envharness.core.policy import Decision
from envharness.core.types import Action

LARGEST_DECISION = 1 << 24
"""Bytes of one decision as JSON, the policy's own words included; more is the policy's fault."""
LARGEST_ACTION = 1 << 20
"""Bytes of one action as JSON; a larger one is refused, as a call that the tool does not understand is."""

_INTEGER_BITS = 64
_MOST_A_CHARACTER = 6
"""Bytes that JSON needs for one character, or an encoder for what takes another one byte."""
_MOST_AROUND = 1000
"""Bytes of the names of all fields, and of the numbers in them."""


def as_decision(answer: object) -> Decision:
    """Return a copy that nobody else holds. Raises TypeError or ValueError for what is none, or is not JSON."""
    if not isinstance(answer, Decision):
        raise TypeError(f"act returned {type(answer).__name__}, not a Decision")
    copied = plain_copy(Decision, answer)
    if copied is not None and _surely_fits(copied):
        return copied
    try:
        # Models can be made without validation, so what is in their fields is not to be trusted.
        written = answer.model_dump_json(warnings="error").encode()
        if len(written) > LARGEST_DECISION:
            raise ValueError(f"act returned {len(written)} bytes; the limit is {LARGEST_DECISION}")
        return Decision.model_validate_json(written)
    except ValidationError as error:
        raise ValueError(f"act returned a malformed Decision: {one_line(error)}") from error
    except PydanticSerializationError as error:
        raise PydanticSerializationError(" ".join(str(error).split())) from error  # on one line


def why_not_sent(action: Action) -> str:
    """Say why no environment can be asked for the action; empty where there is no reason."""
    if _most_bytes(action) <= LARGEST_ACTION:
        return ""
    if _has_huge_integer(action.kwargs):
        return f"an argument of {action.name[:80]!r} is an integer of more than {_INTEGER_BITS} bits"
    size = len(action.model_dump_json())
    return f"the call is {size} bytes long; the limit is {LARGEST_ACTION}" if size > LARGEST_ACTION else ""


def _surely_fits(decision: Decision) -> bool:
    action = decision.action
    words = _MOST_A_CHARACTER * (len(decision.text) + len(decision.problem)) + _MOST_AROUND
    return words + (0 if action is None else _most_bytes(action)) <= LARGEST_DECISION


def _most_bytes(action: Action) -> float:
    """Return a bound of the action's bytes as JSON; infinity where an argument is more than an encoder takes."""
    try:
        arguments = orjson.dumps(action.kwargs)
    except orjson.JSONEncodeError:  # an integer of more than 64 bits, for one
        return inf
    return _MOST_A_CHARACTER * (len(action.name) + len(arguments)) + _MOST_AROUND


def _has_huge_integer(value: JsonValue) -> bool:
    if isinstance(value, dict):
        return any(map(_has_huge_integer, value.values()))
    if isinstance(value, list):
        return any(map(_has_huge_integer, value))
    return isinstance(value, int) and not -(1 << (_INTEGER_BITS - 1)) <= value < 1 << _INTEGER_BITS
