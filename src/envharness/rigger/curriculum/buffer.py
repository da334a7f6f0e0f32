"""The level buffer: one file of levels, what was measured of them, and which are retired."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

from pydantic import BaseModel, ConfigDict, ValidationError

from envharness.core.canonical import digest
from envharness.core.errors import StoreError
from envharness.core.messages import one_line
from envharness.rigger.curriculum.levels import Level, LevelOutcome
from envharness.store.collection import CollectionKind

BUFFER = CollectionKind(
    name="level buffer",
    application_id=0x456E764C,  # "EnvL"
    version=1,
    tables=("levels", "outcomes", "retirements"),
    how_to_make="`envharness curriculum add RUN --buffer {path}` makes one from a run",
)


class _Measured(BaseModel):
    """An outcome, and the level it is about."""

    model_config = ConfigDict(frozen=True)

    level: str
    outcome: LevelOutcome


class _Retired(BaseModel):
    """A level's end."""

    model_config = ConfigDict(frozen=True)

    level: str
    reason: str


@dataclass(frozen=True)
class Added:
    """What an addition changed."""

    levels: int
    outcomes: int


def read_levels(path: Path) -> list[Level]:
    """Return every level with its outcomes, in order of ids; outcomes in order of rounds.

    Raises UnknownIdError where there is no such file, StoreError where it is no level buffer, or is damaged.
    """
    rows = BUFFER.read(path)
    try:
        levels = {key: Level.model_validate_json(body) for key, body in rows["levels"]}
        measured = [(key, _Measured.model_validate_json(body)) for key, body in rows["outcomes"]]
        retired = {key: _Retired.model_validate_json(body) for key, body in rows["retirements"]}
    except ValidationError as error:
        raise StoreError(f"{path}: the level buffer is damaged: {one_line(error)}") from error
    outcomes: dict[str, list[tuple[int, str, LevelOutcome]]] = {}
    for key, entry in measured:
        outcomes.setdefault(entry.level, []).append((entry.outcome.round, key, entry.outcome))
    return [
        level.model_copy(
            update={
                "outcomes": tuple(outcome for _, _, outcome in sorted(outcomes.get(key, []), key=lambda o: o[:2])),
                "retired": retired[key].reason if key in retired else "",
            }
        )
        for key, level in levels.items()
    ]


def add_levels(path: Path, levels: Iterable[Level]) -> Added:
    """Add levels with their outcomes. One that is known keeps its lineage and takes the outcomes it has not yet."""
    levels = list(levels)
    bare = {level.id: level.model_copy(update={"outcomes": (), "retired": ""}).model_dump_json() for level in levels}
    measured = _keyed((level.id, outcome) for level in levels for outcome in level.outcomes)
    new = BUFFER.add(path, {"levels": bare, "outcomes": measured})
    return Added(levels=new["levels"], outcomes=new["outcomes"])


def add_outcomes(path: Path, outcomes: Iterable[tuple[str, LevelOutcome]]) -> int:
    """Add (level id, outcome); return how many are new. One of the same level, policy, round and source counts once.

    Raises StoreError for a level that the buffer does not hold.
    """
    outcomes = list(outcomes)
    known = {level.id for level in read_levels(path)}
    if unknown := next((level for level, _ in outcomes if level not in known), None):
        raise StoreError(f"{path}: the level buffer holds no level {unknown!r}")
    return BUFFER.add(path, {"outcomes": _keyed(outcomes)})["outcomes"]


def retire_levels(path: Path, reasons: Iterable[tuple[str, str]]) -> int:
    """Retire (level id, reason) for good; return how many were in play."""
    rows = {level: _Retired(level=level, reason=reason).model_dump_json() for level, reason in reasons}
    return BUFFER.add(path, {"retirements": rows})["retirements"]


def _keyed(outcomes: Iterable[tuple[str, LevelOutcome]]) -> dict[str, str]:
    """Return records by a key that names the measurement, whatever its counts."""
    return {
        f"{level}/{digest([outcome.policy, outcome.round, outcome.source])}": _Measured(
            level=level, outcome=outcome
        ).model_dump_json()
        for level, outcome in outcomes
    }
