"""The tools of a Chain: the union of its segments' tools, with every clash of names resolved explicitly."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal, cast

from pydantic import JsonValue

from envharness.core.errors import SpecError
from envharness.core.types import JsonDict, ToolSchema

ToolClashes = Literal["error", "prefix", "shared"]


class ToolUnion:
    """Which tool is offered under which name, and what each segment calls it.

    A name under which all segments that use it offer the same parameters is one tool, which goes to the active segment.
    Where the parameters differ, `clashes` decides: `error` raises SpecError; `prefix` offers each segment's tool apart,
    as `task1_name`, `task2_name`; `shared` offers one tool that accepts what any of them accepts, and leaves it to the
    active segment to refuse.
    """

    def __init__(self, tools: Sequence[Sequence[ToolSchema]], clashes: ToolClashes) -> None:
        by_name: dict[str, dict[int, ToolSchema]] = {}
        for segment, schemas in enumerate(tools):
            for schema in schemas:
                by_name.setdefault(schema.name, {})[segment] = schema
        self.schemas: list[ToolSchema] = []
        self._inner: dict[str, dict[int, str]] = {}
        self._renamed: set[str] = set()
        for name, offers in by_name.items():
            self._add(name, offers, clashes)

    def owners(self, offered: str) -> list[int]:
        """Return the segments that have the tool offered under this name; empty where none has."""
        return list(self._inner.get(offered, {}))

    def inner_name(self, offered: str, segment: int) -> str | None:
        """Return what `segment` calls the tool, or None where it has no such tool."""
        return self._inner.get(offered, {}).get(segment)

    def offered_name(self, inner: str, segment: int) -> str:
        """Return the name under which the policy reaches tool `inner` of `segment`."""
        return next(offered for offered, owners in self._inner.items() if owners.get(segment) == inner)

    def is_renamed(self, name: str) -> bool:
        """Whether `name` is what segments call a tool that is offered under other names only."""
        return name in self._renamed and name not in self._inner

    def of_segment(self, segment: int) -> list[str]:
        """Return the offered names of one segment's tools."""
        return [offered for offered, owners in self._inner.items() if segment in owners]

    def _add(self, name: str, offers: dict[int, ToolSchema], clashes: ToolClashes) -> None:
        parameters = [offer.parameters for offer in offers.values()]
        first = next(iter(offers.values()))
        if all(other == parameters[0] for other in parameters):
            self._offer(first, dict.fromkeys(offers, name))
        elif clashes == "error":
            where = ", ".join(str(segment) for segment in offers)
            raise SpecError(
                f"segments {where} each have a tool {name!r} with different parameters; "
                "choose tool_clashes 'prefix' or 'shared'",
                place="tool_clashes",
            )
        elif clashes == "prefix":
            self._renamed.add(name)
            for segment, offer in offers.items():
                prefixed = offer.model_copy(update={"name": f"task{segment + 1}_{name}"})
                self._offer(prefixed, {segment: name})
        else:
            merged = ToolSchema(name=name, description=_joined(offers), parameters=_accepting_any(parameters))
            self._offer(merged, dict.fromkeys(offers, name))

    def _offer(self, schema: ToolSchema, owners: dict[int, str]) -> None:
        if schema.name in self._inner:
            raise SpecError(f"tool {schema.name!r} is there twice; choose another tool_clashes", place="tool_clashes")
        self.schemas.append(schema)
        self._inner[schema.name] = owners


def _joined(offers: dict[int, ToolSchema]) -> str:
    return " ".join(f"Task {segment + 1}: {offer.description}" for segment, offer in offers.items())


def _accepting_any(schemas: Sequence[JsonDict]) -> JsonDict:
    """Return one object schema that admits every argument any of `schemas` admits, and requires what all require."""
    alternatives: dict[str, list[JsonValue]] = {}
    for schema in schemas:
        for name, kind in cast("dict[str, JsonValue]", schema.get("properties", {})).items():
            kinds = alternatives.setdefault(name, [])
            if kind not in kinds:
                kinds.append(kind)
    definitions: dict[str, JsonValue] = {}
    for schema in schemas:
        for name, definition in cast("dict[str, JsonValue]", schema.get("$defs", {})).items():
            if definitions.setdefault(name, definition) != definition:
                raise SpecError(
                    f"two segments define the type {name!r} differently; choose tool_clashes 'prefix'",
                    place="tool_clashes",
                )
    required = [name for name in alternatives if all(name in _required(schema) for schema in schemas)]
    merged: JsonDict = {
        "type": "object",
        "properties": {name: kinds[0] if len(kinds) == 1 else {"anyOf": kinds} for name, kinds in alternatives.items()},
        "required": cast("JsonValue", required),
        "additionalProperties": False,
    }
    if definitions:
        merged["$defs"] = definitions
    return merged


def _required(schema: JsonDict) -> list[JsonValue]:
    return cast("list[JsonValue]", schema.get("required", []))
