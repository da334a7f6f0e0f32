from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from envharness.cli import app
from envharness.components.stack_file import load_stack
from envharness.store.database import RunStore

RIG = """
environment: {id: toy24}
tasks: {count: 6, order: spread}
policy: {id: solver}
seed: 3
remeasure: 10
null: false
run_dir: RUN
engine: {backend: inline}
"""
REMEASURE = """
buffer: BUFFER
run_dir: RUN
policy: {id: solver}
version: v2
round: 2
rollouts: 4
total_rollouts: 9
engine: {backend: inline}
"""


def call(capsys: pytest.CaptureFixture[str], *arguments: object, code: int = 0) -> tuple[str, str]:
    assert app.run([str(argument) for argument in arguments]) == code
    found = capsys.readouterr()
    return found.out, found.err


def answer(capsys: pytest.CaptureFixture[str], *arguments: object) -> dict[str, Any]:
    return json.loads(call(capsys, "curriculum", *arguments, "--json")[0].splitlines()[-1])


def written(path: Path, text: str, **values: Path) -> Path:
    for name, value in values.items():
        text = text.replace(name, str(value))
    path.write_text(text)
    return path


@pytest.mark.slow
def test_a_buffer_from_a_run_to_a_drawn_stack(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    run, buffer = tmp_path / "run", tmp_path / "levels.sqlite3"
    call(capsys, "rig", "-c", written(tmp_path / "rig.yaml", RIG, RUN=run))
    added = answer(capsys, "add", run, "-b", buffer, "--policy-version", "v1")
    assert added["added"] == added["found"] == added["outcomes"] >= 3
    assert answer(capsys, "add", run, "-b", buffer, "--policy-version", "v1")["added"] == 0

    listed = answer(capsys, "list", "-b", buffer, "--round", 1)["levels"]
    assert len(listed) == added["found"]
    assert all(level["staleness"] == 1 and level["lineage"]["policy"] == "v1" for level in listed)
    assert [level["learnability"] for level in listed] == sorted((e["learnability"] for e in listed), reverse=True)
    shown, _ = call(capsys, "curriculum", "show", listed[0]["id"][:10], "-b", buffer)
    assert listed[0]["task"] in shown

    drawn = answer(capsys, "sample", 2, "-b", buffer, "--round", 1, "--out", tmp_path / "drawn")["levels"]
    assert answer(capsys, "sample", 2, "-b", buffer, "--round", 1)["levels"] == drawn
    with load_stack(tmp_path / "drawn" / f"{drawn[0]}.json") as env:
        env.reset(0)

    again = written(tmp_path / "again.yaml", REMEASURE, RUN=tmp_path / "again", BUFFER=buffer)
    first = answer(capsys, "remeasure", "-c", again)
    assert len(first["measured"]) == first["new"] == 2
    assert all(counts["trials"] == 4 for counts in first["measured"].values())
    # The same command again measures nothing anew, and notes nothing twice.
    assert answer(capsys, "remeasure", "-c", again) == first | {"new": 0}
    now = {level["id"]: level for level in answer(capsys, "list", "-b", buffer, "--round", 2)["levels"]}
    assert all(now[level]["staleness"] == 0 for level in first["measured"])
    assert answer(capsys, "retire", "-b", buffer, "--round", 2)["in_play"] <= len(now)


def test_what_cannot_be_used_is_one_line(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    _, says = call(capsys, "curriculum", "list", "-b", tmp_path / "none", code=2)
    assert "there is no level buffer at" in says
    assert says.count("\n") == 1
    with RunStore.open(tmp_path / "run", config={"environment": "toy24"}, command="run") as store:
        store.put_record("note", "a", {})
    _, says = call(capsys, "curriculum", "add", tmp_path / "run", "-b", tmp_path / "b", code=2)
    assert "holds no rigging run" in says
