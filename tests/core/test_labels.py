"""The label of a run's processes: read back as written, told apart by driver and part, ended as a whole."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from envharness.core.labels import ORIGIN, RUN, UNNAMED, Label, current_label, end_part, labelled, run_id
from envharness.core.processes import descendants, end_process, environment_of, parent_of, start_time

pytestmark = pytest.mark.skipif(not sys.platform.startswith("linux"), reason="labels are read from /proc")


def test_a_label_is_read_as_it_was_written() -> None:
    label = Label("0123456789abcdef", 4711, 99, "/3/1")
    assert Label.read(label.variables()) == label
    assert Label.read({**label.variables(), "PATH": "/bin"}) == label
    for origin in ("", "4711", "4711:99/", "4711:99/x", "x:1", "4711:99/3 ", "\u0661:1"):
        assert Label.read({RUN: "r", ORIGIN: origin}) is None
    assert Label.read({ORIGIN: "1:2"}) is None


def test_a_part_holds_what_lies_in_it_and_nothing_beside_it() -> None:
    driver = Label("r", 1, 2)
    worker = driver.new_part()
    other, program = driver.new_part(), worker.new_part()
    assert driver.holds(driver)
    assert driver.holds(program)
    assert worker.holds(program)
    assert not worker.holds(driver)
    assert not other.holds(program)
    assert not Label("r", 1, 2, "/1").holds(Label("r", 1, 2, "/12"))
    assert not driver.holds(Label("r", 1, 3, "/1")), "another process that got the driver's number"


def test_a_process_labels_its_children_with_its_run_its_own_label_or_itself(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv(RUN, raising=False)
    assert current_label() == Label(UNNAMED, os.getpid(), start_time(os.getpid()) or 0)
    assert current_label().driver_lives()
    for name, value in Label("outer", 5, 6, "/7").variables().items():
        monkeypatch.setenv(name, value)
    assert current_label() == Label("outer", 5, 6, "/7")
    assert not current_label().driver_lives()
    with labelled("inner") as label:
        assert current_label() == label == Label("inner", os.getpid(), start_time(os.getpid()) or 0)
    assert current_label().run == "outer"


def test_a_run_is_named_by_where_its_folder_lies(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    assert run_id(Path("run")) == run_id(tmp_path / "x" / ".." / "run")
    assert run_id(Path("run")) != run_id(Path("run2"))


# Starts a shell that leaves group and session, and ends; the sleeper is an orphan then.
STRAY = "import subprocess, sys; subprocess.Popen(['sleep', '77'], start_new_session=True, close_fds=True)"


def test_a_part_is_ended_with_what_left_its_session() -> None:
    mine, other = Label("r", 1, 2).new_part(), Label("r", 1, 2).new_part()
    for label in (mine, other):
        subprocess.run([sys.executable, "-c", STRAY], env=label.variables(), check=True)
    sleepers = {label: carriers(label) for label in (mine, other)}
    assert [len(found) for found in sleepers.values()] == [1, 1]
    assert end_part(mine)
    assert start_time(sleepers[mine][0]) is None
    assert start_time(sleepers[other][0]) is not None
    assert end_part(other)
    assert end_part(other), "nothing is left, and that is fine"


def carriers(label: Label) -> list[int]:
    numbers = (int(entry.name) for entry in Path("/proc").glob("[0-9]*"))
    return [pid for pid in numbers if Label.read(environment_of(pid)) == label]


def test_only_the_process_meant_is_ended() -> None:
    with subprocess.Popen(["sleep", "77"]) as sleeper:
        began = start_time(sleeper.pid)
        assert began is not None
        assert parent_of(sleeper.pid) == os.getpid()
        assert descendants(os.getpid())[sleeper.pid] == began
        assert end_process(sleeper.pid, began + 1), "that one is gone, whoever has its number now"
        assert sleeper.poll() is None
        assert end_process(sleeper.pid, began)
        assert sleeper.wait() == -9
    assert start_time(sleeper.pid) is None
    assert end_process(sleeper.pid, began)
    assert environment_of(sleeper.pid) == {}
