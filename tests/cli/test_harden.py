"""`envharness harden` as a user meets it: exit codes for CI, one JSON object, a page, and clear lines."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from envharness.cli.app import run

CONFIG = """
environment: {id: "rigger.halls:Halls"}
tasks: [hall-0, hall-1]
policy: {id: "rigger.halls:Walker"}
rollouts: 2
variants: [tools, staged]
run_dir: RUN
engine: {backend: inline}
"""


def config(tmp_path: Path, **replace: str) -> Path:
    text = CONFIG.replace("RUN", str(tmp_path / "run"))
    for old, new in replace.items():
        text = text.replace(old, new)
    path = tmp_path / "harden.yaml"
    path.write_text(text)
    return path


def call(capsys: pytest.CaptureFixture[str], *arguments: object, code: int = 0) -> tuple[str, str]:
    returned = run([str(argument) for argument in arguments])
    captured = capsys.readouterr()
    assert returned == code, captured.err
    return captured.out, captured.err


def last_json(out: str) -> dict[str, Any]:
    return json.loads(out.splitlines()[-1])


@pytest.mark.slow
def test_from_configuration_to_exit_code(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = config(tmp_path)
    out, err = call(capsys, "harden", "-c", path, "--json", "--min-success", "0.5")
    found = last_json(out)
    assert found["tasks"] == 2
    assert {"variants", "worst", "rollouts", "invalid", "seconds", "run_dir", "left_out"} <= found.keys()
    rows = {row["id"]: row for row in found["variants"]}
    assert rows["tools/command"]["cases"] == {"unsolvable": 2}
    assert rows["staged/half-won"]["success_rate"] == 1.0
    assert rows["staged/half-won"]["baseline_interval"][1] == 1.0
    assert "hardened stacks" in err

    # The walker always wins, so no threshold is too high; where it gives up at once, every one is.
    call(capsys, "harden", "-c", path, "--min-success", "1.0")
    lazy = config(tmp_path, **{'Walker"}': 'Walker", options: {lazy: 1.0}}', "/run": "/lazy"})
    _, err = call(capsys, "harden", "-c", lazy, "--min-success", "0.1", code=1)
    assert "baseline: success rate 0.00 is below --min-success 0.1" in err

    folder = tmp_path / "run"
    page = (folder / "report.html").read_text()
    assert page.startswith("<!doctype html>")
    assert "staged/half-won" in page
    assert "half-won" in call(capsys, "show", folder)[0]
    assert last_json(call(capsys, "show", folder, "--json")[0])["variants"] == found["variants"]
    (folder / "report.html").unlink()
    call(capsys, "report", folder)
    assert (folder / "report.html").read_text() == page

    _, err = call(capsys, "harden", "-c", path, "--seed", 5, code=7)
    assert "seed" in err


@pytest.mark.slow
def test_a_run_that_was_interrupted_is_shown_as_far_as_it_came(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    path = config(tmp_path)
    monkeypatch.setattr("envharness.cli.hardening.harden", _interrupted)
    call(capsys, "harden", "-c", path, code=130)
    out, _ = call(capsys, "show", tmp_path / "run")
    assert "finished no task yet" in out
    assert "envharness harden" in " ".join(out.split())
    call(capsys, "report", tmp_path / "run")


@pytest.mark.slow
def test_a_policy_that_breaks_is_not_one_that_loses(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    replace = {"rigger.halls:Walker": "campaign.harden.suites:Brittle", "[tools, staged]": "[fields]"}
    path = config(tmp_path, **replace)
    out, _ = call(capsys, "harden", "-c", path, "--json")
    [row] = last_json(out)["variants"]
    assert (row["id"], row["cases"], row["success_rate"]) == ("fields/running text", {"invalid": 2}, None)
    # Nothing is below the threshold, and yet the suite was not held to it.
    _, err = call(capsys, "harden", "-c", path, "--min-success", "0.1", code=5)
    assert "fields/running text of hall-0" in err
    assert "KeyError" in err


def _interrupted(*_: object, **__: object) -> None:
    raise KeyboardInterrupt


@pytest.mark.parametrize(
    ("replace", "words"),
    [
        ({"variants: [tools, staged]": "variants: [tool]"}, "'tools'"),
        ({"variants: [tools, staged]": "variants: [tools, tools]"}, "named twice"),
        ({"variants: [tools, staged]": "variants: []"}, "variants"),
        ({"[hall-0, hall-1]": "[hall-0, hall-0]"}, "'hall-0' is named twice"),
        ({"[hall-0, hall-1]": "[hall-0]", "[tools, staged]": "[chained]"}, "joins two tasks"),
        ({"[hall-0, hall-1]": "[hall-77]"}, "hall-77"),
        ({"rollouts: 2": "rollouts: 0"}, "rollouts"),
        ({"rollouts: 2": "min_success: 2"}, "min_success"),
        ({"rollouts: 2": "designer: template"}, "unknown key"),
    ],
)
def test_a_mistake_is_one_clear_line(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], replace: dict[str, str], words: str
) -> None:
    _, err = call(capsys, "harden", "-c", config(tmp_path, **replace), code=2)
    assert words in err
    assert "Traceback" not in err
    assert len([line for line in err.splitlines() if line.startswith("error:")]) == 1
