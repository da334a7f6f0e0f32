"""One moment of an episode as far as two plays can be compared in it, and how two such moments differ."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass

from pydantic import JsonValue

from envharness.core.types import JsonDict, Observation

_LINE = 80
"""Characters of a value in the text of a difference."""


@dataclass(frozen=True)
class Glimpse:
    """What can be compared of one moment: the state without volatile keys, and what was returned."""

    state: JsonDict
    observation: Observation | None
    """None where it may differ, because the environment declares volatile keys."""
    outcome: tuple[float, bool, bool] | None = None
    """Reward, terminated, truncated; None at a reset."""

    @classmethod
    def of(
        cls,
        state: JsonDict,
        observation: Observation,
        outcome: tuple[float, bool, bool] | None = None,
        *,
        volatile: Collection[str],
    ) -> Glimpse:
        """Leave out what an environment with these volatile keys of the state need not repeat."""
        steady = {key: value for key, value in state.items() if key not in volatile}
        return cls(steady, None if volatile else observation, outcome)


def difference(one: Glimpse, other: Glimpse) -> str:
    """Say how two moments differ, the most telling difference first; empty where they are equal."""
    if one == other:
        return ""
    for key in sorted(one.state.keys() | other.state.keys()):
        if one.state.get(key) != other.state.get(key):
            return f"the state's {key!r} was {_brief(one.state.get(key))} and then {_brief(other.state.get(key))}"
    if one.outcome != other.outcome:
        return f"(reward, terminated, truncated) was {one.outcome} and then {other.outcome}"
    texts = [None if glimpse.observation is None else glimpse.observation.text for glimpse in (one, other)]
    if texts[0] != texts[1]:
        return f"the observation was {_brief(texts[0])} and then {_brief(texts[1])}"
    return "the observation's data differed"


def _brief(value: JsonValue) -> str:
    text = repr(value)
    return text if len(text) <= _LINE else f"{text[: _LINE - 3]}..."
