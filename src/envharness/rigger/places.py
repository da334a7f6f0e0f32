"""What tells two states of a task apart: all of it but its counters. Pure."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass

from pydantic import JsonValue

from envharness.core.trace import Episode
from envharness.core.types import JsonDict
from envharness.rigger.patterns import effective


@dataclass(frozen=True)
class _Turn:
    """The state on either side of one turn."""

    before: JsonDict
    after: JsonDict
    effective: bool

    @property
    def changed(self) -> frozenset[str]:
        """Top-level keys whose value the turn changed."""
        keys = self.before.keys() | self.after.keys()
        return frozenset(key for key in keys if self.before.get(key) != self.after.get(key))


def telling_numbers(episodes: Sequence[Episode]) -> list[str]:
    """Return the top-level numbers that say where an episode stands, such as a place, sorted; the rest are counters.

    A number that moves on a turn without effect is a counter. Else one that rises and falls tells, and one that only
    rises, or only falls, is a counter where it moves at every turn, or never without the rest of the state; but where
    nothing else ever moves, it is all there is to know, and tells. A number that never moved says nothing and is not
    among them.
    """
    turns = [turn for episode in episodes for turn in _turns(episode)]
    moved = sorted({key for turn in turns for key in turn.changed if _is_number_in(turn, key)})
    monotone = {key for key in moved if _is_monotone(turns, key)}
    steady = [turn for turn in turns if turn.effective]
    vain = {key for turn in turns if not turn.effective for key in turn.changed}
    alone = {key for turn in steady if turn.changed <= monotone for key in turn.changed}
    nothing_else = all(turn.changed <= monotone for turn in steady)
    every_turn = {key for key in moved if all(key in turn.changed for turn in steady)}
    tells = alone if nothing_else else alone - every_turn
    return [key for key in moved if key not in vain and (key not in monotone or key in tells)]


def place(state: JsonDict, telling: Collection[str]) -> JsonDict:
    """Return `state` without its counters, so that coming back to it is noticed."""
    return {key: value for key, value in state.items() if key in telling or not _is_number(value)}


def _turns(episode: Episode) -> Iterable[_Turn]:
    before = episode.start.state if episode.start else None
    for step in episode.steps:
        if step.state is None:
            continue
        if before is not None:
            yield _Turn(before, step.state, effective(step))
        before = step.state


def _is_monotone(turns: Sequence[_Turn], key: str) -> bool:
    pairs = [(turn.before[key], turn.after[key]) for turn in turns if key in turn.changed and _is_number_in(turn, key)]
    return len({_number(after) > _number(before) for before, after in pairs}) == 1


def _is_number_in(turn: _Turn, key: str) -> bool:
    return _is_number(turn.before.get(key)) and _is_number(turn.after.get(key))


def _is_number(value: JsonValue) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool)


def _number(value: JsonValue) -> float:
    return value if isinstance(value, int | float) else 0.0
