from __future__ import annotations

import sqlite3
from pathlib import Path

import pytest

from envharness.core.errors import StoreError, UnknownIdError
from envharness.rigger.curriculum.buffer import add_levels, add_outcomes, read_levels, retire_levels
from envharness.rigger.curriculum.levels import LevelOutcome
from rigger.curriculum.test_choice import level


def outcome(number: int, won: int = 3, source: str = "s") -> LevelOutcome:
    return LevelOutcome(policy="v2", round=number, source=source, successes=won, trials=5)


def test_levels_come_back_with_what_was_measured_in_order_of_rounds(tmp_path: Path) -> None:
    path = tmp_path / "levels.sqlite3"
    made = level("a", (4, 2, 5))
    assert add_levels(path, [made, level("b")]).levels == 2
    add_outcomes(path, [(made.id, outcome(9)), (made.id, outcome(2))])
    found = {entry.task: entry for entry in read_levels(path)}
    assert [seen.round for seen in found["a"].outcomes] == [2, 4, 9]
    assert found["b"] == level("b")


def test_adding_twice_is_adding_once(tmp_path: Path) -> None:
    path = tmp_path / "levels.sqlite3"
    made = level("a", (0, 2, 5))
    add_levels(path, [made])
    again = add_levels(path, [made])
    assert (again.levels, again.outcomes) == (0, 0)
    assert add_outcomes(path, [(made.id, outcome(1)), (made.id, outcome(1, won=5))]) == 1
    assert add_outcomes(path, [(made.id, outcome(1, won=5))]) == 0
    assert len(read_levels(path)[0].outcomes) == 2


def test_a_retired_level_stays_retired(tmp_path: Path) -> None:
    path = tmp_path / "levels.sqlite3"
    made = level("a")
    add_levels(path, [made])
    assert retire_levels(path, [(made.id, "mastered")]) == 1
    assert retire_levels(path, [(made.id, "impossible")]) == 0
    add_levels(path, [made])
    assert read_levels(path)[0].retired == "mastered"


def test_a_missing_buffer_is_no_empty_one(tmp_path: Path) -> None:
    with pytest.raises(UnknownIdError, match="there is no level buffer at"):
        read_levels(tmp_path / "none.sqlite3")


def test_an_outcome_of_an_unknown_level_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "levels.sqlite3"
    add_levels(path, [level("a")])
    with pytest.raises(StoreError, match="holds no level 'x'"):
        add_outcomes(path, [("x", outcome(1))])


def test_foreign_and_damaged_files_are_named(tmp_path: Path) -> None:
    text = tmp_path / "text"
    text.write_text("this is no database, and long enough to look at" * 20)
    with pytest.raises(StoreError, match="not a level buffer"):
        read_levels(text)
    foreign = tmp_path / "foreign"
    with sqlite3.connect(foreign) as connection:
        connection.execute("CREATE TABLE t (x)")
    connection.close()
    with pytest.raises(StoreError, match="not a level buffer"):
        add_levels(foreign, [level("a")])
    path = tmp_path / "levels.sqlite3"
    add_levels(path, [level("a")])
    with sqlite3.connect(path) as connection:
        connection.execute("UPDATE levels SET body = '{}'")
    connection.close()
    with pytest.raises(StoreError, match="damaged"):
        read_levels(path)
