"""The state of a Chain and its description: the active segment's, with one reserved key `chain`."""

from __future__ import annotations

from collections.abc import Sequence
from typing import cast

from envharness.core.errors import SpecError
from envharness.core.state_schema import StateKey, parse_state_schema
from envharness.core.types import JsonDict

CHAIN_KEY = "chain"
_CHAIN_LINES = """\
chain: dict[any] - where the chain of tasks stands
    segment: int - 0-based index of the task that is played; the other keys are that task's own
    segments: int - how many tasks there are
    visited: list[int] - the tasks started so far
    inner: dict[any] - the same of a chain inside the active task; absent where there is none"""


def with_chain(state: JsonDict, *, segment: int, segments: int, visited: Sequence[int]) -> JsonDict:
    """Return the active segment's state with the reserved key; what a chain inside put there moves to `inner`."""
    position: JsonDict = {"segment": segment, "segments": segments, "visited": list(visited)}
    if CHAIN_KEY in state:
        position["inner"] = state[CHAIN_KEY]
    return {**state, CHAIN_KEY: position}


def without_chain(state: JsonDict) -> tuple[int, JsonDict]:
    """Undo `with_chain`: return the segment, and the state as that segment gave it."""
    position = state.get(CHAIN_KEY)
    segment = position.get("segment") if isinstance(position, dict) else None
    if not isinstance(position, dict) or not isinstance(segment, int):
        raise SpecError("not the state of a chain: no key 'chain' with a segment", place="state")
    inner = {key: value for key, value in state.items() if key != CHAIN_KEY}
    if "inner" in position:
        inner[CHAIN_KEY] = position["inner"]
    return segment, inner


def visited_segments(state: JsonDict) -> tuple[int, ...]:
    """Return the segments started, as the state of a chain tells them. Raises SpecError where it does not."""
    position = state.get(CHAIN_KEY)
    visited = position.get("visited") if isinstance(position, dict) else None
    if not isinstance(visited, list) or not all(isinstance(index, int) for index in visited):
        raise SpecError("not the state of a chain: no key 'chain' with the segments visited", place="state")
    return tuple(cast("list[int]", visited))


def merged_schema(texts: Sequence[str]) -> str:
    """Return the description of the state of a chain whose segments describe theirs by `texts`.

    Raises SpecError naming a line that does not follow the form.
    """
    parsed = [parse_state_schema(text) for text in texts]
    names = [name for keys in parsed for name in keys if name != CHAIN_KEY]
    lines = [line for name in dict.fromkeys(names) for line in _lines(name, parsed)]
    return "\n".join([*lines, _CHAIN_LINES])


def _lines(name: str, parsed: Sequence[dict[str, StateKey]]) -> list[str]:
    having = {number: keys[name] for number, keys in enumerate(parsed, start=1) if name in keys}
    versions = list(having.values())
    kinds = " | ".join(dict.fromkeys(key.type for key in versions))
    optional = "?" if len(having) < len(parsed) or any(key.optional for key in versions) else ""
    if len(having) == len(parsed) and all(key == versions[0] for key in versions):
        meaning, prose = versions[0].meaning, versions[0].prose
    else:
        meaning = "; ".join(f"task {number}: {key.meaning or key.type}" for number, key in having.items())
        prose = [line for key in versions for line in key.prose]
    return [f"{name}{optional}: {kinds}" + (f" - {meaning}" if meaning else ""), *dict.fromkeys(prose)]
