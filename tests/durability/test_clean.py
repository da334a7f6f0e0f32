"""`envharness clean` on real leftovers: found by label, never by name, and never those of a driver that lives."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from durability.drivers import no_process_left, processes_of, wait_for
from envharness.cli.app import run
from envharness.core.labels import run_id
from rollouts.processes import command_of

pytestmark = pytest.mark.slow

# A driver of the inline engine: nothing ends its policy's program when it is killed. The program's own child has left
# group and session, and holds none of its pipes.
DRIVER = """
import sys, time
from pathlib import Path
from typing import Any
from envharness.core.labels import labelled, run_id
from envharness.policies.program import Program
daemon = "import subprocess; subprocess.Popen(['sleep', '411'], start_new_session=True, stdin=-3, stdout=-3, stderr=-3)"
with labelled(run_id(Path(sys.argv[1]))):
    program = Program([sys.executable, "-c", daemon + "; import time; time.sleep(400)"], environment={}, folder=None)
    print("begun", flush=True)
    time.sleep(400)
"""


@dataclass
class Driver:
    folder: Path
    process: subprocess.Popen[bytes]

    def is_there(self) -> bool:
        return self.process.poll() is None


@pytest.fixture
def start(tmp_path: Path) -> Iterator[Callable[[str], Driver]]:
    begun: list[Driver] = []

    def make(name: str) -> Driver:
        folder = tmp_path / name
        process = subprocess.Popen([sys.executable, "-c", DRIVER, folder], stdout=subprocess.PIPE)
        begun.append(Driver(folder, process))
        wait_for(lambda: len(processes_of(folder)) == 2)
        wait_for(lambda: any("sleep 411" in command_of(pid) for pid in processes_of(folder)))
        return begun[-1]

    yield make
    for driver in begun:
        driver.process.kill()
        driver.process.communicate()
        run(["clean", str(driver.folder)])


def clean(capsys: pytest.CaptureFixture[str], *arguments: object, code: int = 0) -> dict[str, Any]:
    capsys.readouterr()
    assert run(["clean", *map(str, arguments), "--json"]) == code
    return json.loads(capsys.readouterr().out.splitlines()[-1])


def test_what_a_killed_run_left_is_ended_and_nothing_else(
    start: Callable[[str], Driver], capsys: pytest.CaptureFixture[str]
) -> None:
    dead, living, other = start("dead"), start("living"), start("other")
    for driver in (dead, other):
        driver.process.kill()
        driver.process.wait()
    assert len(processes_of(dead.folder)) == 2, "nothing ends them: that is what the command is for"
    with subprocess.Popen(["sleep", "411"]) as namesake:
        listed = clean(capsys, dead.folder, "--dry-run")
        assert (listed["ended"], listed["dry_run"]) == (2, True)
        assert len(processes_of(dead.folder)) == 2
        ended = clean(capsys, dead.folder)
        assert (ended["ended"], ended["kept"], ended["refused"]) == (2, 0, 0)
        found = ended["found"]
        assert {item["folder"] for item in found} == {str(dead.folder)}
        assert {item["driver"] for item in found} == {dead.process.pid}
        assert no_process_left(dead.folder)
        assert namesake.poll() is None
        namesake.kill()
    assert len(processes_of(other.folder)) == 2
    assert clean(capsys, living.folder)["kept"] == 2
    assert len(processes_of(living.folder)) == 2
    assert clean(capsys, dead.folder)["ended"] == 0


def test_all_takes_every_dead_run_and_leaves_the_living(
    start: Callable[[str], Driver], capsys: pytest.CaptureFixture[str]
) -> None:
    dead, living = start("dead"), start("living")
    dead.process.kill()
    dead.process.wait()
    # Other tests of this machine may have drivers of their own.
    found = clean(capsys, "--all", "--dry-run")["found"]
    doomed = {item["id"] for item in found if not item["driver_lives"]}
    assert set(processes_of(dead.folder)) <= doomed
    assert not set(processes_of(living.folder)) & doomed
    assert run_id(living.folder) in {item["run"] for item in found if item["driver_lives"]}


def test_force_ends_a_run_that_goes_on_with_its_driver(
    start: Callable[[str], Driver], capsys: pytest.CaptureFixture[str]
) -> None:
    living, other = start("living"), start("other")
    assert clean(capsys, living.folder, "--force", "--dry-run")["ended"] == 2
    assert living.is_there()
    assert clean(capsys, living.folder, "--force")["ended"] == 2
    assert living.process.wait(10) == -9
    assert no_process_left(living.folder)
    assert other.is_there()


def test_a_command_never_ends_what_it_runs_in(start: Callable[[str], Driver]) -> None:
    living = start("living")
    # As from a program of the run itself: the label of a driver that is gone, around the very command.
    origin = {"ENVHARNESS_RUN": run_id(living.folder), "ENVHARNESS_ORIGIN": f"{2**22 + 1}:5/1"}
    command = f"{sys.executable} -m envharness.cli clean {living.folder} --json; echo alive"
    done = subprocess.run(
        ["bash", "-c", command], env={**os.environ, **origin}, capture_output=True, text=True, check=True
    )
    assert json.loads(done.stdout.splitlines()[0])["ended"] == 0
    assert done.stdout.splitlines()[1] == "alive"


@pytest.mark.parametrize("arguments", [[], ["--all", "somewhere"], ["--all", "--force"]])
def test_what_is_to_be_cleaned_must_be_said(arguments: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["clean", *arguments]) == 2
    assert "error:" in capsys.readouterr().err


def test_a_person_reads_what_was_done(start: Callable[[str], Driver], capsys: pytest.CaptureFixture[str]) -> None:
    dead = start("dead")
    dead.process.kill()
    dead.process.wait()
    assert run(["clean", str(dead.folder), "--dry-run"]) == 0
    assert "would end: process" in capsys.readouterr().out
    assert run(["clean", str(dead.folder)]) == 0
    said = " ".join(capsys.readouterr().out.split())
    assert f"(driver {dead.process.pid}): sleep 411" in said
    assert run(["clean", str(dead.folder)]) == 0
    assert capsys.readouterr().out == "nothing is left over\n"
