"""Run folders that nobody planned for: what is damaged is named, and nothing is guessed."""

from __future__ import annotations

import sqlite3
from pathlib import Path

import pytest

from envharness.core.errors import StoreError
from envharness.store.database import RunStore
from envharness.store.schema import DATABASE_FILE


@pytest.mark.parametrize(
    "damage",
    [
        "UPDATE facts SET value = 'x' WHERE name = 'session'",
        "DELETE FROM facts WHERE name = 'session'",
        "DELETE FROM facts WHERE name = 'command'",
        "DELETE FROM facts WHERE name = 'config'",
        "UPDATE facts SET value = '[]' WHERE name = 'config'",
        "UPDATE facts SET value = '{' WHERE name = 'config'",
    ],
)
def test_damaged_facts_are_a_store_error(damage: str, tmp_path: Path) -> None:
    with RunStore.open(tmp_path, config={"seed": 1}, command="rig") as store:
        store.put_record("note", "a", {"x": 1})
    connection = sqlite3.connect(tmp_path / DATABASE_FILE, isolation_level=None)
    connection.execute(damage)
    connection.close()
    with pytest.raises(StoreError, match="damaged"):
        RunStore.open(tmp_path, config={"seed": 1}, command="rig")


def test_a_record_that_is_no_object_is_damaged(tmp_path: Path) -> None:
    with RunStore.open(tmp_path, config={}, command="rig") as store:
        store.put_record("note", "a", {"x": 1})
        store._connection.execute("UPDATE records SET body = '[1]'")
        with pytest.raises(StoreError, match="record note 'a' is damaged"):
            store.get_record("note", "a")


def test_a_configuration_that_is_not_json_is_a_store_error_and_leaves_the_folder_usable(tmp_path: Path) -> None:
    with pytest.raises(StoreError, match="not JSON"):
        RunStore.open(tmp_path, config={"rate": float("nan")}, command="rig")
    RunStore.open(tmp_path, config={"rate": 0.5}, command="rig").close()


def test_a_folder_that_no_system_can_make_is_a_store_error() -> None:
    with pytest.raises(StoreError, match="cannot make the run folder"):
        RunStore.open(Path("a\0b"), config={}, command="rig")


def test_a_run_with_nothing_in_it_can_be_forgotten_and_no_other(tmp_path: Path) -> None:
    with RunStore.open(tmp_path, config={"seed": 1}, command="rig") as store:
        store.forget_empty()
    with RunStore.open(tmp_path, config={"seed": 2}, command="demo", resume=False) as store:
        assert (store.config, store.command) == ({"seed": 2}, "demo")
        store.put_record("note", "a", {"x": 1})
        store.forget_empty()
    with pytest.raises(StoreError, match="seed was 2, is now 1"):
        RunStore.open(tmp_path, config={"seed": 1}, command="demo")
