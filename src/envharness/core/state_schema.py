"""The text that describes an environment's state to a designer, and the check that the state keeps to it.

One line a key: `name: type - meaning`. Types: str, int, float, bool, null, any, list[T], dict[T] (string keys), T | T.
An indented line describes a key of the object above it and is prose: it is not checked.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import cast

from pydantic import JsonValue

from envharness.core.errors import SpecError

_LINE = re.compile(r"^(?P<name>\w+)(?P<optional>\?)?: (?P<type>[\w\[\]| ]+?)(?: - (?P<meaning>.*))?$")
_SCALARS: dict[str, tuple[type, ...]] = {
    "str": (str,),
    "int": (int,),
    "float": (int, float),
    "bool": (bool,),
    "null": (type(None),),
}


@dataclass
class StateKey:
    """What a description says of one top-level key of the state."""

    type: str
    optional: bool
    meaning: str
    """Empty where none is given."""
    prose: list[str] = field(default_factory=list[str])
    """The indented lines below it, as they stand."""


def parse_state_schema(text: str) -> dict[str, StateKey]:
    """Return the keys described, in order. Raises SpecError naming a line that does not follow the form."""
    keys: dict[str, StateKey] = {}
    current: StateKey | None = None
    for number, line in enumerate(text.splitlines(), start=1):
        if not line.strip():
            continue
        if line[0].isspace():
            if current is not None:
                current.prose.append(line)
            continue
        match = _LINE.match(line)
        if match is None:
            raise SpecError(
                f"line {number} {line!r} is not of the form 'name: type - meaning'", place="env_state_schema"
            )
        kind = match["type"].strip()
        _require_known(kind)
        current = StateKey(kind, match["optional"] is not None, match["meaning"] or "")
        keys[match["name"]] = current
    return keys


def state_violations(text: str, state: Mapping[str, JsonValue]) -> list[str]:
    """Return how a state departs from its description, one sentence a departure; empty where it keeps to it."""
    keys = parse_state_schema(text)
    problems = [
        f"{name!r} is described but missing" for name, key in keys.items() if not key.optional and name not in state
    ]
    problems += [f"{name!r} is in the state but not described" for name in sorted(state.keys() - keys.keys())]
    problems += [
        f"{name!r} is described as {key.type} but holds {str(state[name])[:60]!r}"
        for name, key in keys.items()
        if name in state and not _fits(state[name], key.type)
    ]
    return problems


def _require_known(kind: str) -> None:
    alternatives = _split_union(kind)
    if len(alternatives) > 1:
        for alternative in alternatives:
            _require_known(alternative)
    elif kind.startswith(("list[", "dict[")) and kind.endswith("]"):
        _require_known(kind[5:-1])
    elif kind != "any" and kind not in _SCALARS:
        raise SpecError(f"unknown type {kind!r} in a state description", place="env_state_schema")


def _fits(value: JsonValue, kind: str) -> bool:
    alternatives = _split_union(kind)
    if len(alternatives) > 1:
        return any(_fits(value, alternative) for alternative in alternatives)
    if kind == "any":
        return True
    if kind.startswith("list[") and kind.endswith("]"):
        return isinstance(value, list) and all(_fits(item, kind[5:-1]) for item in value)
    if kind.startswith("dict[") and kind.endswith("]"):
        return isinstance(value, dict) and all(_fits(item, kind[5:-1]) for item in value.values())
    if isinstance(value, bool):
        return kind == "bool"
    return isinstance(cast("object", value), _SCALARS[kind])


def _split_union(kind: str) -> list[str]:
    """Split at the bars that stand outside brackets."""
    parts, depth = [""], 0
    for character in kind:
        depth += {"[": 1, "]": -1}.get(character, 0)
        if character == "|" and depth == 0:
            parts.append("")
        else:
            parts[-1] += character
    return [part.strip() for part in parts]
