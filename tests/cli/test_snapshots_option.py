"""`--snapshots` and `engine.snapshots` reach the workers: whether rollouts are forked is theirs to say."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from envharness.cli.app import run
from envharness.rollouts.snapshots.staging import StagingProcess

CONFIG = """
environment: {id: toy24}
tasks: {count: 1}
policy: {id: solver}
designer: {id: identity}
rounds: 1
rollouts: 2
remeasure: 0
"""


@pytest.fixture
def forks(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """The process ids of all children forked from here on."""
    children: list[int] = []
    fork = StagingProcess.fork

    def noted(process: StagingProcess) -> Any:
        channel, child = fork(process)
        children.append(child)
        return channel, child

    monkeypatch.setattr(StagingProcess, "fork", noted)
    return children


@pytest.mark.slow
@pytest.mark.parametrize(("mode", "forked"), [("always", True), ("never", False)])
@pytest.mark.parametrize("how", ["run", "rig by option", "rig by file", "rig by option over the file"])
def test_a_run_forks_as_it_was_told(how: str, mode: str, forked: bool, forks: list[int], tmp_path: Path) -> None:
    in_file = {"rig by file": mode, "rig by option over the file": "never" if forked else "always"}.get(how, "auto")
    config = tmp_path / "rig.yaml"
    config.write_text(f"{CONFIG}run_dir: {tmp_path / 'run'}\nengine: {{backend: inline, snapshots: {in_file}}}\n")
    command = ["run", "toy24", "-p", "solver", "-n", "2"] if how == "run" else ["rig", "-c", str(config)]
    if how != "rig by file":
        command += ["--snapshots", mode]
    assert run(command) == 0
    assert bool(forks) == forked
