"""What a run meets that is not its own end: dead workers, a full disk, a held database, jumping clocks, copies."""

from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

import pytest

from durability.drivers import Kept, Launcher, Start, kept_in, launcher, no_process_left
from durability.runs import TEMPLATE
from rollouts.processes import command_of, descendants, workers_of

pytestmark = pytest.mark.slow


@dataclass(frozen=True)
class Bench:
    """A launcher, the configuration all tests here run, and what it makes where nothing happens."""

    drivers: Launcher
    config: Path
    whole: Kept


@pytest.fixture(scope="module")
def bench(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Bench]:
    folder = tmp_path_factory.mktemp("whole")
    config = folder / "rig.yaml"
    config.write_text(TEMPLATE)
    with launcher() as drivers:
        assert drivers.start(config, folder / "run").status == 0, (folder / "run.log").read_text()
        yield Bench(drivers, config, kept_in(folder / "run"))


def after_stored(count: int, act: Callable[[Start], None]) -> Callable[[Start], bool]:
    """Call `act` once, when so many episodes are stored. The driver is not signalled."""
    done = False

    def due(start: Start) -> bool:
        nonlocal done
        if not done and len(start.stored) >= count:
            done = True
            act(start)
        return False

    return due


def zygotes_below(pid: int) -> set[int]:
    """The zygotes alone: a hook process looks like one, and to kill it first would be a fault of its component."""
    alike = {child for child in descendants(pid) if "sandbox.zygote" in command_of(child)}
    return {child for child in alike if parent_of(child) not in alike}


def parent_of(pid: int) -> int:
    try:
        return int(Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[1])
    except OSError:
        return 0


@pytest.mark.parametrize("victim", ["worker", "zygote"])
def test_a_killed_worker_or_zygote_costs_nothing_but_time(victim: str, bench: Bench, tmp_path: Path) -> None:
    killed: list[int] = []

    def kill(start: Start) -> None:
        found = workers_of(start.pid) if victim == "worker" else zygotes_below(start.pid)
        for pid in found:
            with suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
                killed.append(pid)

    # By then hooks have been run, in the driver and in the workers.
    start = bench.drivers.start(bench.config, tmp_path / "run", until=after_stored(30, kill))
    assert killed
    assert start.status == 0, (tmp_path / "run.log").read_text()
    assert kept_in(tmp_path / "run").content == bench.whole.content
    assert no_process_left(tmp_path / "run")


@pytest.fixture
def small_disk() -> Iterator[Path]:
    folder = Path(tempfile.mkdtemp())
    mounted = subprocess.run(
        ["mount", "-t", "tmpfs", "-o", "size=200k", "tmpfs", folder], capture_output=True, check=False
    )
    if mounted.returncode:
        folder.rmdir()
        pytest.skip("mounting a small disk needs privileges; the file size limit covers the rest")
    yield folder
    subprocess.run(["umount", folder], check=True)
    folder.rmdir()


def test_a_run_whose_disk_is_full_ends_in_one_line_and_goes_on_with_room(
    small_disk: Path, bench: Bench, tmp_path: Path
) -> None:
    start = bench.drivers.start(bench.config, small_disk / "run", log=str(tmp_path / "log"))
    assert start.status == 7
    assert "the disk is full; free some space and run the same command again" in (tmp_path / "log").read_text()
    before = kept_in(small_disk / "run")
    assert set(start.stored) == before.episodes.keys()
    assert before.episodes
    subprocess.run(["mount", "-o", "remount,size=20m", small_disk], check=True)
    again = bench.drivers.start(bench.config, small_disk / "run", log=str(tmp_path / "log"))
    assert again.status == 0
    assert not before.episodes.keys() & set(again.submitted)
    assert kept_in(small_disk / "run").content == bench.whole.content


def test_a_run_that_may_write_no_more_ends_in_one_line_and_goes_on(bench: Bench, tmp_path: Path) -> None:
    start = bench.drivers.start(bench.config, tmp_path / "run", file_bytes=150_000)
    assert start.status == 7
    said = (tmp_path / "run.log").read_text()
    assert "error:" in said
    assert "the disk" in said
    assert "Traceback" not in said
    before = kept_in(tmp_path / "run")
    assert set(start.stored) == before.episodes.keys()
    assert bench.drivers.start(bench.config, tmp_path / "run").status == 0
    assert kept_in(tmp_path / "run").content == bench.whole.content


def test_a_foreign_transaction_is_waited_for_and_then_named(bench: Bench, tmp_path: Path) -> None:
    program = (
        "import sqlite3, sys; c = sqlite3.connect(sys.argv[1], isolation_level=None, timeout=20)\n"
        "c.execute('BEGIN IMMEDIATE'); print('held', flush=True); sys.stdin.read()"
    )
    folder = tmp_path / "run"
    holders: list[subprocess.Popen[bytes]] = []

    def hold(_: Start) -> None:
        holder = subprocess.Popen(
            [sys.executable, "-c", program, folder / "run.sqlite3"], stdin=subprocess.PIPE, stdout=subprocess.PIPE
        )
        assert holder.stdout is not None
        holder.stdout.readline()
        holders.append(holder)

    start = bench.drivers.start(bench.config, folder, until=after_stored(5, hold), busy_seconds=0.3)
    holders[0].communicate()
    assert start.status == 7
    said = " ".join((tmp_path / "run.log").read_text().split())
    assert f"process {holders[0].pid} " in said
    assert "held the database for 0.3 s; close it and run again" in said
    assert bench.drivers.start(bench.config, folder).status == 0
    assert kept_in(folder).content == bench.whole.content


def test_a_second_run_on_the_folder_is_refused_and_told_who_holds_it(bench: Bench, tmp_path: Path) -> None:
    refused: list[subprocess.CompletedProcess[str]] = []

    def try_too(start: Start) -> None:
        command = [sys.executable, "-m", "envharness.cli", "rig", "-c", str(bench.config), "--run-dir", str(folder)]
        os.kill(start.pid, signal.SIGSTOP)  # or it may be done before the other has started
        refused.append(subprocess.run(command, capture_output=True, text=True, check=False))
        os.kill(start.pid, signal.SIGCONT)

    folder = tmp_path / "run"
    start = bench.drivers.start(bench.config, folder, until=after_stored(3, try_too))
    assert start.status == 0
    assert refused[0].returncode == 7
    holder = json.loads((folder / "run.lock").read_text())
    said = " ".join(refused[0].stderr.split())
    assert f"is in use by process {start.pid} on {holder['host']} since {holder['since']}" in said
    assert kept_in(folder).content == bench.whole.content


@pytest.mark.parametrize("steps", [[0, 86400.0, -3e8], [0, -1e6, -2e6, -3e6], [4e9, 0]], ids=["both", "back", "far"])
def test_a_wall_clock_that_jumps_changes_nothing(steps: list[float], bench: Bench, tmp_path: Path) -> None:
    start = bench.drivers.start(bench.config, tmp_path / "run", clock=steps)
    assert start.status == 0, (tmp_path / "run.log").read_text()
    assert kept_in(tmp_path / "run").content == bench.whole.content


def test_a_copy_of_a_run_at_rest_goes_on_elsewhere(bench: Bench, tmp_path: Path) -> None:
    folder = tmp_path / "here"
    assert bench.drivers.start(bench.config, folder, until=lambda start: len(start.stored) > 20).status == -9
    assert no_process_left(folder)
    assert (folder / "run.sqlite3-wal").stat().st_size, "a killed run leaves its log: it belongs to the copy"
    copy = tmp_path / "elsewhere" / "copy"
    shutil.copytree(folder, copy)
    # As from another machine: the file says who held it there, and nobody holds it here.
    holder = json.loads((copy / "run.lock").read_text())
    (copy / "run.lock").write_text(json.dumps({**holder, "host": "another-machine"}))
    before = kept_in(copy)
    start = bench.drivers.start(bench.config, copy)
    assert start.status == 0
    assert not before.episodes.keys() & set(start.submitted)
    assert kept_in(copy).content == bench.whole.content


def test_a_copy_made_in_mid_run_goes_on_or_is_refused_as_what_it_is(bench: Bench, tmp_path: Path) -> None:
    copies: list[Path] = []

    def copy(start: Start) -> bool:
        if len(start.stored) % 8 == 5:
            copies.append(tmp_path / f"copy-{len(copies)}")
            shutil.copytree(folder, copies[-1])
        return False

    folder = tmp_path / "run"
    assert bench.drivers.start(bench.config, folder, until=copy).status == 0
    assert kept_in(folder).content == bench.whole.content, "being copied does a run no harm"
    assert len(copies) >= 5
    for place in copies[::3]:
        assert bench.drivers.start(bench.config, place).status == 0
        assert kept_in(place).content == bench.whole.content
