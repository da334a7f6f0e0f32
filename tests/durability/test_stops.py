"""Ctrl-C and SIGTERM: the first finishes and keeps what is in flight, the second or the end of the grace stops at once."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from durability.drivers import Launcher, Start, kept_in, launcher, no_process_left, wait_for
from durability.runs import RUNS
from envharness.rollouts.interrupts import StopRequest, Terminated, orderly_stop
from rollouts.processes import workers_of

STATUS = {signal.SIGINT: 130, signal.SIGTERM: 143}
TESTS = Path(__file__).parents[1]


@pytest.fixture(scope="module")
def drivers() -> Iterator[Launcher]:
    with launcher() as forking:
        yield forking


@pytest.mark.slow
@pytest.mark.parametrize("number", STATUS, ids=["INT", "TERM"])
@pytest.mark.parametrize(("designer", "stored", "asked"), [("template", 9, 0), ("llm", 10, 2)])
def test_a_stopped_run_keeps_what_was_in_flight_and_goes_on(
    number: signal.Signals, designer: str, stored: int, asked: int, drivers: Launcher, tmp_path: Path
) -> None:
    config = tmp_path / "rig.yaml"
    config.write_text(RUNS[designer])
    folder, log = tmp_path / "run", tmp_path / "run.log"

    def due(start: Start) -> bool:
        # In mid-call, where there are calls: what was asked is paid for.
        in_mid_call = bool(start.asked.keys() - start.answered) or not asked
        return len(start.stored) >= stored and len(start.asked) >= asked and in_mid_call

    start = drivers.start(config, folder, until=due, number=number, thinking_seconds=1.5)
    assert start.status == STATUS[number], log.read_text()
    said = log.read_text()
    assert said.count(f"{number.name}: finishing what is in flight, 10 s at most; a second one stops at once") == 1
    assert "Traceback" not in said
    assert no_process_left(folder)
    before = kept_in(folder)
    assert set(start.stored) == before.episodes.keys()
    assert start.asked.keys() == start.kept == before.calls
    again = drivers.start(config, folder)
    assert again.status == 0, log.read_text()
    assert not before.episodes.keys() & set(again.submitted)
    assert not before.calls & again.asked.keys()
    assert drivers.start(config, tmp_path / "whole").status == 0
    assert kept_in(folder).content == kept_in(tmp_path / "whole").content


def naps(seconds: float, *arguments: str, backend: str = "pool") -> subprocess.Popen[str]:
    command = [sys.executable, "-m", "envharness.cli", "run", "kitchen:Kitchen", "-p", "rollouts.hostile:Naps"]
    options = ["-q", f"seconds={seconds}", "-n", "50", "--backend", backend, "--json"]
    if backend == "pool":
        options += ["--workers", "2"]
    return subprocess.Popen(
        [*command, *options, *arguments],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        env={**os.environ, "PYTHONPATH": str(TESTS)},
    )


def begun(process: subprocess.Popen[str], backend: str) -> None:
    """Wait until episodes are being played."""
    if backend == "pool":
        wait_for(lambda: len(workers_of(process.pid)) == 2)
    time.sleep(2.0)


@pytest.mark.slow
@pytest.mark.parametrize("backend", ["inline", "pool"])
@pytest.mark.parametrize("number", STATUS, ids=["INT", "TERM"])
def test_run_tells_of_the_episodes_that_were_in_flight(backend: str, number: signal.Signals) -> None:
    with naps(1.0, backend=backend) as process:
        begun(process, backend)
        process.send_signal(number)
        out, err = process.communicate(timeout=30)
    assert process.returncode == STATUS[number], err
    result = json.loads(out.splitlines()[-1])
    assert 1 <= result["episodes"] < 50
    assert result["won"] == result["valid"] == result["episodes"]
    assert f"{number.name}: finishing what is in flight" in err


@pytest.mark.slow
@pytest.mark.parametrize("backend", ["inline", "pool"])
@pytest.mark.parametrize("how", ["second", "grace", "none"])
def test_a_second_signal_or_the_end_of_the_grace_time_stops_at_once(how: str, backend: str) -> None:
    grace = {"second": "60", "grace": "0.5", "none": "0"}[how]
    with naps(50.0, "--grace", grace, backend=backend) as process:
        begun(process, backend)
        workers = workers_of(process.pid)
        began = time.monotonic()
        process.send_signal(signal.SIGINT)
        if how == "second":
            time.sleep(0.5)
            process.send_signal(signal.SIGINT)
        out, err = process.communicate(timeout=30)
    assert process.returncode == 130, err
    assert time.monotonic() - began < 12
    assert out == ""
    assert ("finishing what is in flight" in err) == (how != "none")
    assert err.count("error: interrupted") == 1
    wait_for(lambda: not any(Path(f"/proc/{pid}").exists() for pid in workers))


@pytest.mark.slow
def test_a_signal_to_all_processes_at_once_loses_no_episode() -> None:
    """A service manager tells the workers too; theirs is to finish, for the driver is still there."""
    with naps(3.0) as process:
        begun(process, "pool")
        workers = workers_of(process.pid)
        for pid in (*workers, process.pid):
            os.kill(pid, signal.SIGTERM)
        time.sleep(0.3)
        assert workers_of(process.pid) == workers
        out, err = process.communicate(timeout=30)
    assert process.returncode == 143, err
    result = json.loads(out.splitlines()[-1])
    assert result["won"] == result["episodes"] >= 2


def raised_in(seconds: float, grace: float, signals: int = 1) -> tuple[list[str], bool, float]:
    said: list[str] = []
    began = time.monotonic()
    unwound = False
    with pytest.raises(Terminated) as ended, orderly_stop(grace, said.append) as stop:  # noqa: PT012
        for _ in range(signals):
            signal.raise_signal(signal.SIGTERM)
        unwound = True
        while stop.asked and time.monotonic() - began < seconds:
            time.sleep(0.01)
        unwound = False
    assert ended.value.code == 143
    return said, unwound, time.monotonic() - began


def test_leaving_after_a_stop_was_asked_for_raises_what_the_signal_would() -> None:
    said, unwound, _ = raised_in(0.1, 60.0)
    assert len(said) == 1
    assert not unwound, "the body came to its end"


def test_the_end_of_the_grace_time_unwinds_the_body() -> None:
    _, unwound, seconds = raised_in(30.0, 0.1)
    assert unwound
    assert seconds < 20


def test_signals_are_what_they_were_before_and_threads_are_gone() -> None:
    before = signal.getsignal(signal.SIGINT), signal.getsignal(signal.SIGTERM), threading.active_count()
    with orderly_stop(5.0, print) as stop:
        assert not stop.asked
        assert signal.getsignal(signal.SIGINT) != before[0]
    assert (signal.getsignal(signal.SIGINT), signal.getsignal(signal.SIGTERM), threading.active_count()) == before


def test_a_signal_that_is_ignored_stays_ignored() -> None:
    former = signal.signal(signal.SIGINT, signal.SIG_IGN)
    try:
        with orderly_stop(5.0, print) as stop:
            signal.raise_signal(signal.SIGINT)
            assert not stop.asked
    finally:
        signal.signal(signal.SIGINT, former)


def test_outside_the_main_thread_nothing_is_touched() -> None:
    found: list[StopRequest] = []

    def elsewhere() -> None:
        with orderly_stop(5.0, print) as stop:
            found.append(stop)

    before = signal.getsignal(signal.SIGTERM)
    thread = threading.Thread(target=elsewhere)
    thread.start()
    thread.join()
    assert [stop.asked for stop in found] == [False]
    assert signal.getsignal(signal.SIGTERM) is before
