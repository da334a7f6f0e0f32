"""Random values that fit a JSON schema of the kind that tools have."""

from __future__ import annotations

import random
from collections.abc import Iterator, Sequence
from typing import cast

from pydantic import JsonValue

from envharness.core.types import JsonDict, Observation

OPTIONAL_SHARE = 0.5
"""How often an argument that is not required is given."""
SPREAD = 100
"""Width of the range that a number is drawn from where the schema leaves it open."""
DEEPEST = 8
"""Nesting at which optional parts are left out, so that a schema that contains itself comes to an end."""


def words_of(observation: Observation) -> list[str]:
    """Return the strings in an observation's data, or the words of its text where the data holds none."""
    found = list(dict.fromkeys(_strings(observation.data)))
    return found or list(dict.fromkeys(observation.text.split()))


def sample(schema: JsonDict, rng: random.Random, words: Sequence[str] = ()) -> JsonValue:
    """Return a random value that fits `schema`; strings are taken from `words`.

    Understands type, enum, const, anyOf, oneOf, $ref into $defs, properties and required, items with minItems and
    maxItems, bounds of numbers (multipleOf aside), minLength and maxLength. A `pattern` is not understood.
    """
    return _Sampler(rng, words, cast("JsonDict", schema.get("$defs", {}))).value(schema, 0)


class _Sampler:
    def __init__(self, rng: random.Random, words: Sequence[str], definitions: JsonDict) -> None:
        self._rng = rng
        self._words = words
        self._definitions = definitions

    def value(self, schema: JsonDict, depth: int) -> JsonValue:
        reference = schema.get("$ref")
        if isinstance(reference, str):
            return self.value(cast("JsonDict", self._definitions.get(reference.rsplit("/", 1)[-1], {})), depth)
        if "const" in schema:
            return schema["const"]
        choices = schema.get("enum")
        if isinstance(choices, list) and choices:
            return self._rng.choice(choices)
        for union in ("anyOf", "oneOf"):
            options = schema.get(union)
            if isinstance(options, list) and options:
                return self.value(self._option(cast("list[JsonDict]", options), depth), depth)
        return self._typed(schema, depth)

    def _option(self, options: list[JsonDict], depth: int) -> JsonDict:
        empty = [option for option in options if option.get("type") == "null"]
        return empty[0] if empty and depth >= DEEPEST else self._rng.choice(options)

    def _typed(self, schema: JsonDict, depth: int) -> JsonValue:
        kind = schema.get("type")
        if isinstance(kind, list):
            kind = self._rng.choice(kind)
        if kind == "array":
            return self._array(schema, depth)
        if kind == "object" or "properties" in schema:
            return self._object(schema, depth)
        return self._scalar(kind, schema)

    def _scalar(self, kind: JsonValue, schema: JsonDict) -> JsonValue:
        if kind == "boolean":
            return self._rng.random() < 0.5  # noqa: PLR2004  a fair coin
        if kind == "integer":
            return self._integer(schema)
        if kind == "number":
            return self._rng.uniform(*_bounds(schema, float(SPREAD)))
        return None if kind == "null" else self._string(schema)

    def _integer(self, schema: JsonDict) -> int:
        low, high = _bounds(schema, SPREAD)
        first, last = int(-(-low // 1)), int(high // 1)
        first += "exclusiveMinimum" in schema and first == low
        last -= "exclusiveMaximum" in schema and last == high
        return self._rng.randint(first, max(first, last))

    def _array(self, schema: JsonDict, depth: int) -> JsonValue:
        fewest = cast("int", schema.get("minItems", 0))
        most = fewest if depth >= DEEPEST else cast("int", schema.get("maxItems", fewest + 3))
        items = cast("JsonDict", schema.get("items", {"type": "string"}))
        return [self.value(items, depth + 1) for _ in range(self._rng.randint(fewest, max(fewest, most)))]

    def _object(self, schema: JsonDict, depth: int) -> JsonDict:
        properties = cast("dict[str, JsonDict]", schema.get("properties", {}))
        required = cast("list[str]", schema.get("required", []))
        share = 0.0 if depth >= DEEPEST else OPTIONAL_SHARE
        return {
            name: self.value(part, depth + 1)
            for name, part in properties.items()
            if name in required or self._rng.random() < share
        }

    def _string(self, schema: JsonDict) -> str:
        word = self._rng.choice(self._words) if self._words else "x"
        word = word.ljust(cast("int", schema.get("minLength", 0)), "x")
        return word[: cast("int", schema.get("maxLength", len(word)))]


def _bounds(schema: JsonDict, spread: float) -> tuple[float, float]:
    """Return the range of a number; an end that is open lies `spread` from the other."""
    low = cast("float | None", schema.get("minimum", schema.get("exclusiveMinimum")))
    high = cast("float | None", schema.get("maximum", schema.get("exclusiveMaximum")))
    if low is None and high is None:
        return 0.0, spread
    if low is None:
        return cast("float", high) - spread, cast("float", high)
    return low, low + spread if high is None else high


def _strings(value: JsonValue) -> Iterator[str]:
    if isinstance(value, str):
        yield value
    elif isinstance(value, list):
        for item in value:
            yield from _strings(item)
    elif isinstance(value, dict):
        for item in value.values():
            yield from _strings(item)
