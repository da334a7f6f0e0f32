from __future__ import annotations

import asyncio
import json
import os
import sqlite3
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from envharness.cli.app import run as command
from envharness.core.errors import BridgeError, ConfigError, StoreError, UnknownIdError
from envharness.core.spec import StackSpec
from envharness.rollouts.episode import play
from envharness.rollouts.job import RolloutJob
from envharness.store.database import RunStore
from envharness.store.schema import DATABASE_FILE
from rollouts.changing import CHANGES, KITCHEN, chain
from rollouts.hostile import job, script

OPEN: dict[str, Any] = {"name": "drawer", "kwargs": {"state": "open"}}
WIN: list[Any] = [{"name": "take"}, {"name": "put", "kwargs": {"place": "desk"}}]
JOBS = {
    "tidy": job(KITCHEN, script(WIN), index=0),
    "untidy": job(KITCHEN, script([OPEN, *WIN]), index=1),
    "chain": job(chain(), script([OPEN, *WIN, *WIN]), index=2),
    "broken": job(StackSpec.environment("rollouts.hostile:Misbehaving", how="raise", when="step"), index=3),
}
"""One of each phase; nothing of the first one depends on the drawer."""
COUNTS = {"same": 0, "changed": 0, "diverged": 0, "unavailable": 0, "invalid": 0, "retold": 0}


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    with RunStore.open(tmp_path / "run", config={}, command="rig") as store:
        for phase, one in JOBS.items():
            store.put_episode(one.key, phase, asyncio.run(play(one)), one.model_dump(mode="json"))
    return tmp_path / "run"


def content(folder: Path) -> bytes:
    with RunStore.read(folder) as store:
        return store.export_canonical()


def put(folder: Path, one: RolloutJob, phase: str) -> None:
    with RunStore.open(folder, config={}, command="rig") as store:
        store.put_episode(one.key, phase, asyncio.run(play(JOBS["tidy"])), one.model_dump(mode="json"))


@pytest.mark.parametrize(
    ("changes", "counts", "code"),
    [
        ("", {"same": 3, "invalid": 1}, 0),
        ("words", {"same": 3, "invalid": 1, "retold": 3}, 0),
        ("strict", {"same": 1, "changed": 2, "invalid": 1}, 1),
        ("words strict", {"same": 1, "changed": 2, "invalid": 1, "retold": 2}, 1),
        ("jammed", {"same": 1, "diverged": 2, "invalid": 1}, 1),
        ("gone", {"unavailable": 3, "invalid": 1}, BridgeError.exit_code),
    ],
)
def test_what_became_of_the_verdicts_is_counted_named_and_written(
    changes: str,
    counts: dict[str, int],
    code: int,
    folder: Path,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv(CHANGES, changes)
    before, table = content(folder), folder.parent / "deeper" / "verdicts.jsonl"
    assert command(["rescore", str(folder), "--json", "--write", str(table)]) == code
    said = capsys.readouterr()
    assert json.loads(said.out.splitlines()[-1]) == {"episodes": 4, **COUNTS, **counts}
    lines = [json.loads(line) for line in table.read_text().splitlines()]
    assert {line["phase"]: line["key"] for line in lines} == {phase: one.key for phase, one in JOBS.items()}
    for verdict in ("changed", "diverged", "unavailable"):
        named = [line for line in said.err.splitlines() if f": {verdict}" in line]
        assert len(named) == sum(line["verdict"] == verdict for line in lines) == counts.get(verdict, 0)
    assert sum(line["retold"] is not None for line in lines) == counts.get("retold", 0)
    assert content(folder) == before


def test_a_verdict_that_changed_is_told_with_what_it_was(
    folder: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(CHANGES, "strict words")
    assert command(["rescore", str(folder)]) == 1
    said = capsys.readouterr()
    assert "mug-on-desk untidy 1 " in said.err
    assert "changed: success 1.0 -> failure 0.0" in said.err
    assert "changed: segment 0.0, judged at turn 2; the whole: success 1.0 -> failure 0.0" in said.err
    assert "4 episodes: 1 same, 2 changed, 0 diverged, 0 unavailable, 1 invalid" in said.out
    assert "2 of them took the same path, but were told something else on it" in said.out


def test_a_divergence_is_told_with_both_verdicts(
    folder: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(CHANGES, "jammed")
    assert command(["rescore", str(folder), "--phase", "untidy"]) == 1
    assert "diverged at turn 0, refused; the verdict is the same all the same" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("statement", "message", "number"),
    [
        ("DELETE FROM jobs WHERE key = :key", "was not kept", 1),
        (
            "UPDATE job_parts SET body = x'00' WHERE digest = (SELECT common FROM jobs WHERE key = :key)",
            "is damaged",
            1,
        ),
        ("UPDATE jobs SET own = '{}' WHERE key = :key", "is damaged", 1),
        ("UPDATE jobs SET own = '[' WHERE key = :key", "is damaged", 1),
        ("UPDATE episodes SET body = x'00' WHERE key = :key", "is damaged", 1),
        ("UPDATE episodes SET body = '{}' WHERE key = :key", "is damaged", 1),
        ("DELETE FROM jobs", "was not kept", 3),
    ],
)
def test_damage_to_one_costs_the_others_nothing(
    statement: str, message: str, number: int, folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    with sqlite3.connect(folder / DATABASE_FILE) as connection:
        connection.execute(statement, {"key": JOBS["untidy"].key} if ":key" in statement else {})
    assert command(["rescore", str(folder), "--json"]) == BridgeError.exit_code
    said = capsys.readouterr()
    assert json.loads(said.out) == {
        "episodes": 4,
        **COUNTS,
        "same": 3 - number,
        "unavailable": number,
        "invalid": 1,
    }
    assert message in said.err


@pytest.mark.parametrize("name", ["sold_world", "no_such_module:Class", "rollouts.hostile:Nothing"])
def test_an_environment_that_is_gone_costs_the_others_nothing(
    name: str, folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    put(folder, JOBS["tidy"].model_copy(update={"stack": StackSpec.environment(name)}), "another")
    assert command(["rescore", str(folder)]) == BridgeError.exit_code
    said = capsys.readouterr()
    assert "5 episodes: 3 same, 0 changed, 0 diverged, 1 unavailable, 1 invalid" in said.out
    assert "another 0" in said.err
    assert name in said.err


def test_a_constructor_that_takes_no_such_option_any_more_costs_the_others_nothing(folder: Path) -> None:
    put(folder, JOBS["tidy"].model_copy(update={"stack": StackSpec.environment("kitchen:Kitchen", oven=1)}), "another")
    assert command(["rescore", str(folder)]) == BridgeError.exit_code


def test_what_fits_no_episode_is_an_error(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert command(["rescore", str(folder), "--task", "nothing"]) == UnknownIdError.exit_code
    assert "has no such episodes" in " ".join(capsys.readouterr().err.split())


def test_a_database_that_cannot_be_read_ends_it(folder: Path) -> None:
    with sqlite3.connect(folder / DATABASE_FILE) as connection:
        connection.execute("DROP TABLE jobs")
    assert command(["rescore", str(folder)]) == StoreError.exit_code


def test_a_table_is_never_written_into_the_run(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    before = content(folder)
    (folder.parent / "alias").symlink_to(folder)
    for table in (folder / DATABASE_FILE, folder.parent / "alias" / "new.jsonl"):
        assert command(["rescore", str(folder), "--write", str(table)]) == ConfigError.exit_code
        assert "outside of the run folder" in " ".join(capsys.readouterr().err.split())
    assert content(folder) == before
    assert not (folder / "new.jsonl").exists()


def test_a_line_is_written_as_soon_as_its_episode_was_asked_about(folder: Path) -> None:
    slow = StackSpec.environment("rollouts.hostile:Misbehaving", how="hang", when="reset", seconds=30)
    put(folder, JOBS["tidy"].model_copy(update={"stack": slow}), "zzz")  # the last one in order
    table = folder.parent / "verdicts.jsonl"
    os.mkfifo(table)
    arguments = [sys.executable, "-m", "envharness.cli", "rescore", str(folder), "--write", str(table)]
    places = {"PYTHONPATH": os.pathsep.join(sys.path)}
    process = subprocess.Popen(arguments, env={**os.environ, **places}, stderr=subprocess.DEVNULL)
    try:
        with table.open() as lines:
            phases = [json.loads(lines.readline())["phase"] for _ in JOBS]
        assert phases == sorted(JOBS)
    finally:
        process.kill()
        process.wait()
