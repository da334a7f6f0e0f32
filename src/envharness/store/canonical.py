"""What counts as the content of a run: everything but clocks, workers, attempts and the run's folder."""

from __future__ import annotations

import json
from typing import cast

from pydantic import JsonValue

from envharness.core.types import JsonDict

_CIRCUMSTANCES = frozenset({"seconds", "worker", "attempt", "wasted", "run_dir"})


def canonical_json(value: JsonValue) -> str:
    """Serialize with sorted keys and no spaces, so that equal values are equal text. Raises ValueError for NaN."""
    # The standard library's encoder, because JSON from an environment may hold integers of more than 64 bits.
    return json.dumps(value, sort_keys=True, separators=(",", ":"), allow_nan=False)


def record_content(value: JsonValue) -> JsonValue:
    """Return a record's body without circumstances, at every depth: all keys of a record are our own."""
    if isinstance(value, list):
        return [record_content(item) for item in value]
    if isinstance(value, dict):
        return {key: record_content(item) for key, item in value.items() if not _is_circumstance(key)}
    return value


def episode_content(episode: JsonDict) -> JsonDict:
    """Return an episode without circumstances.

    Only the trace's own fields are dropped: a state, an observation or an action may have a key called `seconds` that
    is content.
    """
    content = _without_circumstances(episode)
    start = content.get("start")
    if isinstance(start, dict):
        content["start"] = _without_circumstances(start)
    steps = cast("list[JsonDict]", content.get("steps", []))
    content["steps"] = [_without_circumstances(step) for step in steps]
    return content


def _without_circumstances(fields: JsonDict) -> JsonDict:
    return {key: value for key, value in fields.items() if not _is_circumstance(key)}


def _is_circumstance(key: str) -> bool:
    return key in _CIRCUMSTANCES or key.endswith("_seconds")
