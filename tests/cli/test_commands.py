"""The command line as a user meets it: real runs, exit codes, one clear line for every mistake."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest

from envharness import __version__
from envharness.cli.app import run

CONFIG = """
environment: {id: toy24}
tasks: {count: 3, order: spread}
policy: {id: solver}
designer: {id: template}
remeasure: 4
limits: {max_steps: 30}
run_dir: RUN
engine: {backend: inline}
"""


def config(tmp_path: Path, **replace: str) -> Path:
    text = CONFIG.replace("RUN", str(tmp_path / "run"))
    for old, new in replace.items():
        text = text.replace(old, new)
    path = tmp_path / "rig.yaml"
    path.write_text(text)
    return path


def call(capsys: pytest.CaptureFixture[str], *arguments: object, code: int = 0) -> tuple[str, str]:
    returned = run([str(argument) for argument in arguments])
    captured = capsys.readouterr()
    assert returned == code, captured.err
    return captured.out, captured.err


def last_json(out: str) -> dict[str, Any]:
    return json.loads(out.splitlines()[-1])


def test_a_run_that_accepted_nothing_points_to_no_stacks(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = config(tmp_path, **{"id: template": "id: identity", "count: 3": "count: 1", "remeasure: 4": "rounds: 1"})
    out, err = call(capsys, "rig", "-c", path, "--json")
    assert last_json(out)["accepted"] == 0
    assert "report.html, none accepted" in err
    assert "accepted stacks" not in err


def test_envs(capsys: pytest.CaptureFixture[str]) -> None:
    assert "toy24" in call(capsys, "envs")[0]
    listed = last_json(call(capsys, "envs", "toy24", "--json")[0])
    assert listed["tasks"][0] == "easy-0000"


def test_run_plays_episodes(capsys: pytest.CaptureFixture[str]) -> None:
    arguments = ["run", "toy24", "-p", "solver", "--task", "easy-0003", "-n", 3, "--max-steps", 30, "--json"]
    result = last_json(call(capsys, *arguments)[0])
    assert result["valid"] == 3
    assert result == last_json(call(capsys, *arguments)[0])


@pytest.mark.slow
def test_rig_from_configuration_to_loaded_stack(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = config(tmp_path)
    out, err = call(capsys, "rig", "-c", path, "--json")
    assert f"accepted stacks: {tmp_path / 'run' / 'stacks'}" in err
    summary = last_json(out)
    assert summary["tasks"] == 3
    assert summary["accepted"] >= 1, "three easy tasks of which none is ever reshaped would be a broken rigger"
    assert {
        "in_band_before",
        "in_band_after",
        "in_band_remeasured",
        "rollouts",
        "invalid",
        "seconds",
        "run_dir",
    } <= summary.keys()

    # The same command again pays for nothing.
    again = last_json(call(capsys, "rig", "-c", path, "--json")[0])
    timeless = summary.keys() - {"seconds"}
    assert {key: again[key] for key in timeless} == {key: summary[key] for key in timeless}

    # Another configuration is refused, and says what differs.
    _, err = call(capsys, "rig", "-c", path, "--seed", 5, code=7)
    assert "seed" in err

    folder = tmp_path / "run"
    assert (folder / "report.html").read_text().startswith("<!doctype html>")
    stacks = sorted((folder / "stacks").glob("*.json"))
    assert len(stacks) == summary["accepted"]
    loaded = last_json(call(capsys, "load", stacks[0], "--json")[0])
    assert loaded["layers"][-1] == "Toy24"
    assert len(loaded["layers"]) > 1
    assert "24" in call(capsys, "run", stacks[0], "-p", "solver", "--trace")[0]

    assert "Share of all tasks" in call(capsys, "show", folder)[0]
    task = last_json(call(capsys, "show", folder, "--json")[0])["tasks"][0]
    assert "Round 1" in call(capsys, "show", folder, "--task", task["task"])[0]
    key = task["baseline"]["episodes"][0]
    assert call(capsys, "show", folder, "--episode", key[:12])[0]
    out = tmp_path / "elsewhere" / "page.html"
    call(capsys, "report", folder, "--out", out)
    assert out.exists()


@pytest.mark.parametrize(
    ("arguments", "code", "words"),
    [
        (["check", "toy42"], 2, "did you mean 'toy24'"),
        (["run", "toy24", "-p", "solvr"], 2, "unknown policy 'solvr'"),
        (["run", "toy24", "-p", "solver", "--task", "easy-9999"], 3, "easy-9999"),
        (["run", "toy24", "-p", "solver", "-o", "colour=red"], 2, "colour"),
        (["run", "toy24", "-p", "solver", "-q", "colour=red"], 2, "colour"),
        (["run", "toy24", "-p", "solver", "-o", "colour"], 2, "key=value"),
        (["run", "no_such_module:Env", "-p", "solver"], 2, "no_such_module"),
        (["load", "/no/such/file.json"], 2, "/no/such/file.json"),
        (["show", "/no/such/run"], 7, "/no/such/run"),
        (["report", "/no/such/run"], 7, "/no/such/run"),
        (["rig", "-c", "/no/such.yaml"], 2, "/no/such.yaml"),
        (["rig"], 2, "--config"),
        (["no-such-command"], 2, "no-such-command"),
        (["run", "toy24", "-p", "solver", "-n", "0"], 2, "-n"),
    ],
)
def test_a_mistake_is_one_clear_line(
    capsys: pytest.CaptureFixture[str], arguments: list[str], code: int, words: str
) -> None:
    _, err = call(capsys, *arguments, code=code)
    assert words in err
    assert "Traceback" not in err
    assert len([line for line in err.splitlines() if line.startswith("error:")]) <= 1


def test_no_argument_is_help_and_no_error(capsys: pytest.CaptureFixture[str]) -> None:
    out, err = call(capsys, code=2)
    assert "Usage" in out
    assert "error" not in err


def test_version(capsys: pytest.CaptureFixture[str]) -> None:
    assert call(capsys, "--version")[0].strip() == __version__


def test_the_current_folder_is_where_ones_own_environment_is_found(tmp_path: Path) -> None:
    (tmp_path / "own_place.py").write_text("from kitchen import Kitchen as Own\n")
    tests = Path(__file__).parents[1]
    program = Path(sys.executable).parent / "envharness"
    done = subprocess.run(
        [program, "check", "own_place:Own"],
        cwd=tmp_path,
        capture_output=True,
        text=True,
        check=False,
        env={"PYTHONPATH": str(tests)},
    )
    assert "noop_fails" in done.stdout, done.stderr


def test_an_environment_that_lacks_its_data_is_one_line_and_not_one_a_check(capsys: pytest.CaptureFixture[str]) -> None:
    out, err = call(capsys, "check", "kitchen:Unfurnished", code=3)
    assert out == ""
    assert err.count("no furniture") == 1


def test_capabilities_as_a_method_is_named(capsys: pytest.CaptureFixture[str]) -> None:
    _, err = call(capsys, "check", "kitchen:Methodical", code=2)
    assert "@property" in err


@pytest.mark.slow
def test_a_run_in_which_nothing_was_measured_says_so(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = config(
        tmp_path,
        **{
            "policy: {id: solver}": "policy: {id: command, options: {command: [/no/such/program]}}",
            "count: 3": "count: 1",
            "remeasure: 4": "rollouts: 2",
        },
    )
    _, err = call(capsys, "rig", "-c", path, code=5)
    assert "invalid, so nothing was measured" in " ".join(err.split())


def test_a_run_whose_policy_never_answers_stops(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = config(tmp_path, **{"policy: {id: solver}": "policy: {id: command, options: {command: [/no/such/program]}}"})
    _, err = call(capsys, "rig", "-c", path, code=5)
    assert "error: the policy got no answer in" in err
    assert "/no/such/program" in err.splitlines()[-1]


@pytest.mark.slow
def test_a_demo_of_another_version_starts_afresh(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    arguments = ["demo", "--run-dir", tmp_path / "demo", "--tasks", 1, "--workers", 1, "--json"]
    call(capsys, *arguments)
    _, err = call(capsys, *arguments, "--seed", 5)
    assert "starting afresh" in err


def test_debug_shows_the_traceback(capsys: pytest.CaptureFixture[str]) -> None:
    _, err = call(capsys, "load", "/no/such/file.json", "--debug", code=2)
    assert "Traceback" in err


@pytest.mark.parametrize(
    ("content", "words"),
    [
        ("{", "not JSON"),
        ('{"schema_version": 9}', "schema version 9"),
        ('{"schema_version": 2, "stack": {"kind": "mutator"}}', "unknown tag 'mutator'"),
        ('{"schema_version": 2, "stack": {"kind": "wrapped", "component": "stage", "state": {"actions": [{"name": "fly"}]}, "inner": {"kind": "environment", "id": "toy24"}}}', "stage action 0: fly() was refused"),
        ('{"schema_version": 2, "stack": {"kind": "wrapped", "component": "stage", "state": {"actions": [{"name": "stop"}]}, "inner": {"kind": "environment", "id": "toy24"}}}', "ended the episode"),
        ('{"schema_version": 2, "stack": {"kind": "wrapped", "component": "contract", "state": {"source": "def ("}, "inner": {"kind": "environment", "id": "toy24"}}}', "line 1"),
        ('{"schema_version": 2, "stack": {"kind": "wrapped", "component": "contract", "state": {"source": "x = 1"}, "inner": {"kind": "environment", "id": "toy24"}}}', "_Contract"),
    ],
)  # fmt: skip
def test_a_foreign_or_corrupt_stack_file_is_named(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], content: str, words: str
) -> None:
    path = tmp_path / "stack.json"
    path.write_text(content)
    returned = run(["load", str(path)])
    err = capsys.readouterr().err
    assert returned in {2, 4}
    assert words in " ".join(err.split())


def test_markup_in_an_error_is_text(capsys: pytest.CaptureFixture[str]) -> None:
    _, err = call(capsys, "check", "[red]x[/red]\x1b[31m", code=2)
    assert "[red]x[/red]" in err
    assert "\x1b[31m" not in err


@pytest.mark.slow
def test_an_interrupted_run_leaves_no_process_and_goes_on(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = config(tmp_path, **{"count: 3": "count: 6", "backend: inline": "backend: pool, workers: 2"})
    command = [sys.executable, "-m", "envharness.cli", "rig", "-c", str(path)]
    process = subprocess.Popen(
        command, stderr=subprocess.PIPE, stdout=subprocess.PIPE, text=True, start_new_session=True
    )
    database = tmp_path / "run" / "run.sqlite3"
    deadline = time.monotonic() + 30
    while not database.exists() and time.monotonic() < deadline:
        time.sleep(0.1)
    time.sleep(1.0)
    process.send_signal(signal.SIGINT)
    _, err = process.communicate(timeout=30)
    assert process.returncode == 130, err
    assert "the same command goes on" in " ".join(err.split())
    assert "Traceback" not in err
    with pytest.raises(ProcessLookupError):
        os.killpg(process.pid, 0)
    assert last_json(call(capsys, "rig", "-c", path, "--json")[0])["tasks"] == 6


def test_a_read_only_run_folder_is_one_line(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    blocker = tmp_path / "file"
    blocker.write_text("")
    _, err = call(capsys, "rig", "-c", config(tmp_path), "--run-dir", blocker / "run", code=7)
    assert "cannot make the run folder" in err


def test_output_into_a_closed_pipe_is_no_error() -> None:
    script = f"{sys.executable} -m envharness.cli envs toy24 | head -1"
    done = subprocess.run(["bash", "-c", script], capture_output=True, text=True, check=True)
    assert done.stdout == "easy-0000\n"
    assert done.stderr == ""
