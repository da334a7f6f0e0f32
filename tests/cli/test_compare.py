"""`envharness compare` as a user meets it."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from envharness.cli.app import run

CONFIG = """
base:
  environment: {id: toy24}
  tasks: {count: 2, order: spread}
  policy: {id: solver}
  scaffold_from_reference: true
  rounds: 2
  remeasure: 4
  limits: {max_steps: 30}
designers: [template, random, identity]
seeds: [1, 2]
resamples: 200
run_dir: RUN
engine: {backend: inline}
"""


def written(folder: Path, **replace: str) -> Path:
    text = CONFIG.replace("RUN", str(folder / "run"))
    for old, new in replace.items():
        assert old in text
        text = text.replace(old, new)
    path = folder / "compare.yaml"
    path.write_text(text)
    return path


def call(capsys: pytest.CaptureFixture[str], *arguments: object, code: int = 0) -> tuple[str, str]:
    returned = run([str(argument) for argument in arguments])
    captured = capsys.readouterr()
    assert returned == code, captured.err
    return captured.out, captured.err


@pytest.mark.slow
def test_from_configuration_to_tables_files_and_json(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = written(tmp_path)
    out, err = call(capsys, "compare", "-c", path)
    assert "Share of all tasks in the band" in out
    assert "Against random" in out
    assert "cell 6 of 6: identity on solver, seed 2" in err
    kept = json.loads((tmp_path / "run" / "compare.json").read_bytes())
    assert (tmp_path / "run" / "compare.md").read_text().startswith("# Designers compared")
    again, _ = call(capsys, "compare", "-c", path, "--json")
    assert json.loads(again.splitlines()[-1]) == kept
    assert kept["budget"] == 15
    # A cell is a run like any other.
    assert "Share of all tasks" in call(capsys, "show", tmp_path / "run" / "cells" / "solver" / "seed-1" / "random")[0]


@pytest.mark.slow
def test_an_interrupted_comparison_goes_on(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = written(tmp_path, **{"backend: inline": "backend: pool, workers: 1"})
    command = [sys.executable, "-m", "envharness.cli", "compare", "-c", str(path)]
    process = subprocess.Popen(
        command, stderr=subprocess.PIPE, stdout=subprocess.PIPE, text=True, start_new_session=True
    )
    second = tmp_path / "run" / "cells" / "solver" / "seed-1" / "random" / "run.sqlite3"
    deadline = time.monotonic() + 60
    while not second.exists() and time.monotonic() < deadline:
        time.sleep(0.05)
    process.send_signal(signal.SIGINT)
    _, err = process.communicate(timeout=60)
    assert process.returncode == 130, err
    assert "the same command goes on" in " ".join(err.split())
    with pytest.raises(ProcessLookupError):
        os.killpg(process.pid, 0)
    out, _ = call(capsys, "compare", "-c", path, "--json")
    assert len(json.loads(out.splitlines()[-1])["figures"]) == 3


@pytest.mark.slow
def test_the_base_may_be_the_file_of_a_run(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    base = tmp_path / "rig.yaml"
    base.write_text(
        "environment: {id: toy24}\ntasks: [easy-0000]\npolicy: {id: solver}\nrounds: 1\nrun_dir: x\nengine: {workers: 9}\n"
    )
    path = tmp_path / "compare.yaml"
    path.write_text(
        f"base: {base}\ndesigners: [random, identity]\nseeds: [1]\nresamples: 100\nrun_dir: {tmp_path / 'run'}\n"
        "engine: {backend: inline}\n"
    )
    out, _ = call(capsys, "compare", "-c", path, "--json")
    assert json.loads(out.splitlines()[-1])["tasks"] == ["easy-0000"]
    assert not (tmp_path / "x").exists()


@pytest.mark.parametrize(
    ("replace", "words"),
    [
        ({"seeds: [1, 2]": "seeds: [1, 1]"}, "'1' is there twice"),
        ({"seeds: [1, 2]": "seeds: [1]\nreference: llm"}, "no designer 'llm' here"),
        ({"designers: [template, random, identity]": "designers: [template]"}, "designers"),
        ({"seeds: [1, 2]": ""}, "required keys are missing: seeds"),
        ({"  rounds: 2": "  rounds: 0"}, "base.rounds"),
        ({"  rounds: 2": "  round: 2"}, "unknown key (allowed: "),
        ({"resamples: 200": "resample: 200"}, "unknown key (allowed: "),
        ({"designers: [template, random, identity]": "designers: [tempalte, random]"}, "unknown designer 'tempalte'"),
        ({"policy: {id: solver}": "policy: {id: slover}"}, "did you mean 'solver'"),
    ],
)
def test_a_mistake_is_one_clear_line(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], replace: dict[str, str], words: str
) -> None:
    _, err = call(capsys, "compare", "-c", written(tmp_path, **replace), code=2)
    assert words in " ".join(err.split())
    assert len([line for line in err.splitlines() if line.startswith("error:")]) == 1


def test_a_base_that_is_wrong_is_named_by_its_own_file(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "rig.yaml").write_text("environment: {id: toy24}\ntasks: [a, a]\npolicy: {id: solver}\nrun_dir: x\n")
    path = tmp_path / "compare.yaml"
    path.write_text(f"base: {tmp_path / 'rig.yaml'}\ndesigners: [random, identity]\nseeds: [1]\nrun_dir: x\n")
    _, err = call(capsys, "compare", "-c", path, code=2)
    assert "rig.yaml" in err
    assert "'a' is named twice" in " ".join(err.split())


@pytest.mark.slow
def test_a_comparison_in_which_nothing_was_decided_says_so(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = written(
        tmp_path,
        **{
            "policy: {id: solver}": "policy: {id: command, options: {command: [/no/such/program]}}",
            "count: 2": "count: 1",
            "remeasure: 4": "rollouts: 1",
            "seeds: [1, 2]": "seeds: [1]",
        },
    )
    _, err = call(capsys, "compare", "-c", path, code=5)
    assert "no task was decided in any cell" in " ".join(err.split())
