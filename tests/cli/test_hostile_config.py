"""Configurations that nobody planned for: one line that names the place, quickly."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from envharness.cli.app import run
from envharness.cli.config_file import read_config
from envharness.cli.options import parse_options
from envharness.cli.output import print_json
from envharness.cli.rigging import RigFile
from envharness.components.stack_file import save_stack
from envharness.core.errors import ConfigError
from envharness.core.spec import StackSpec

BASE = "environment: {id: toy24}\npolicy: {id: solver}\ntasks: {count: 1}\nrun_dir: runs/x\n"


def read(folder: Path, text: str) -> RigFile:
    path = folder / "run.yaml"
    path.write_text(text)
    return read_config(path, RigFile)


def test_a_key_is_the_text_that_is_written(tmp_path: Path) -> None:
    assert read(tmp_path, BASE).null
    assert not read(tmp_path, f"{BASE}null: false\n").null
    with pytest.raises(ConfigError, match="line 5, key '5': unknown key"):
        read(tmp_path, f"{BASE}5: x\n")


def test_aliases_that_multiply_are_refused_before_they_are_written_out(tmp_path: Path) -> None:
    layers = ["a0: &a0 [x, x, x, x, x, x, x, x, x]"]
    layers += [f"a{n}: &a{n} [{', '.join([f'*a{n - 1}'] * 9)}]" for n in range(1, 12)]
    with pytest.raises(ConfigError, match="aliases written out"):
        read(tmp_path, "\n".join(layers))


@pytest.mark.parametrize(
    ("line", "says"),
    [
        ("seed: " + "9" * 5000, "a value cannot be read"),
        ("stacks: 2020-99-99", "a value cannot be read"),
        ("band: [.nan, 0.6]", "line 5, key 'band.0'"),
        ("limits: {episode_seconds: .inf}", "line 5, key 'limits.episode_seconds'"),
        ("limits: {step_seconds: 1.0e+300}", "less than or equal to"),
        ("rollouts: 1000000000000", "less than or equal to"),
        ("remeasure: 1000000000000", "less than or equal to"),
        ("band: [0.6, 0.4]", "must be two rates"),
    ],
)
def test_numbers_out_of_all_bounds_are_one_short_line(line: str, says: str, tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match=r"run\.yaml") as caught:
        read(tmp_path, f"{BASE}{line}\n")
    assert says in str(caught.value)
    assert len(str(caught.value)) < len(str(tmp_path)) + 200


@pytest.mark.parametrize("text", ["2020-99-99", "9" * 5000, "[" * 5000, "{"])
def test_an_option_that_cannot_be_read_is_wrong_use(text: str) -> None:
    with pytest.raises(ConfigError, match="not YAML"):
        parse_options([f"key={text}"])


def test_json_for_scripts_holds_any_integer_and_any_text(capsys: pytest.CaptureFixture[str]) -> None:
    data = {"big": 10**30, "half": "\ud800", "name": "ü"}
    print_json(data)
    assert json.loads(capsys.readouterr().out) == data


def test_a_run_that_stopped_before_its_first_rollout_takes_a_corrected_configuration(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    config = tmp_path / "run.yaml"
    arguments = ["rig", "--config", str(config), "--run-dir", str(tmp_path / "run"), "--backend", "inline", "--json"]
    short = "rollouts: 1\nrounds: 1\nlimits: {max_steps: 3}\n"
    config.write_text(BASE.replace("{count: 1}", "[no-such-task]") + short)
    assert run(arguments) == 2
    config.write_text(BASE + short)
    assert run(arguments) == 0
    config.write_text(BASE + short + "seed: 5\n")
    assert run(arguments) == 7
    assert "seed was 0, is now 5" in " ".join(capsys.readouterr().err.split())


def test_a_run_is_held_to_the_content_of_the_stacks_it_builds_on(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    stacks, moved = tmp_path / "stacks", tmp_path / "moved"
    base = StackSpec.environment("toy24", task="easy-0000")
    save_stack(base, stacks / "easy-0000.json")
    config = tmp_path / "run.yaml"
    short = "null: false\nrollouts: 1\nrounds: 1\nlimits: {max_steps: 3}\nengine: {backend: inline}\n"
    arguments = ["rig", "--config", str(config), "--run-dir", str(tmp_path / "run"), "--json"]
    config.write_text(f"{BASE}{short}stacks: {stacks}\n")
    assert run(arguments) == 0
    stacks.rename(moved)
    config.write_text(f"{BASE}{short}stacks: {moved}\n")
    assert run(arguments) == 0
    save_stack(base.wrap("stage", actions=[]), moved / "easy-0000.json")
    capsys.readouterr()
    assert run(arguments) == 7
    assert "stacks was" in capsys.readouterr().err
