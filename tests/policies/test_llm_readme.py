"""The README's section "With your model", line by line as it stands, against the local model."""

from __future__ import annotations

import re
import shlex
import socket
import subprocess
import sys
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pytest

from local_model import require_local_model

ROOT = Path(__file__).parents[2]
SECTION = re.compile(r"^```console local-model\n(.*?)^```", re.MULTILINE | re.DOTALL)


@pytest.fixture
def commands() -> list[str]:
    block = SECTION.search((ROOT / "README.md").read_text())
    assert block
    return [line.removeprefix("$ ") for line in block[1].splitlines()]


@pytest.fixture
def served(commands: list[str]) -> Iterator[str]:
    """Serve as the README says, on the port that it says; return the base URL."""
    require_local_model()
    (line,) = [line for line in commands if line.endswith("&")]
    program, *arguments = shlex.split(line.removesuffix("&"))
    assert program == ".venv/bin/python"
    with closing(socket.socket()) as probe:
        port = int(arguments[arguments.index("--port") + 1])
        assert probe.connect_ex(("127.0.0.1", port)) != 0, f"something else is served on port {port}"
    server = subprocess.Popen(
        [sys.executable, *arguments, "--until-input-ends"],
        cwd=ROOT,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        text=True,
    )
    with server:
        assert server.stdin
        assert server.stdout
        yield server.stdout.readline().strip()
        server.stdin.close()


@pytest.mark.slow
@pytest.mark.xdist_group("local_model")
def test_the_readme_with_your_model_works_as_it_stands(commands: list[str], served: str, tmp_path: Path) -> None:
    assert all(served in line or "base_url" not in line for line in commands)
    assert served in (ROOT / "experiments/toy24-llm.yaml").read_text()
    (tmp_path / "experiments").symlink_to(ROOT / "experiments")
    said: list[str] = []
    for line in commands:
        if line.startswith("envharness"):
            command = [sys.executable, "-m", "envharness.cli", *shlex.split(line)[1:]]
            done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, timeout=900, check=False)
            assert done.returncode == 0, f"{line}\n{done.stdout}\n{done.stderr}"
            said.append(done.stdout)
    played, rigged = said
    assert "Numbers left" in played
    assert "easy-0000" in rigged
    assert (tmp_path / "runs/toy24-llm/report.html").exists()
