"""Drivers of `launcher.py` as tests see them: started, listened to, killed; and the run folder between two starts."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Generator, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from envharness.core.errors import StoreError
from envharness.core.labels import labelled_processes, run_id
from envharness.store.database import RunStore
from rollouts.processes import eventually

LAUNCHER = Path(__file__).with_name("launcher.py")


@dataclass
class Start:
    """One start of a run, by what its driver told."""

    pid: int
    status: int | None = None
    """How it ended: an exit code, or a negative signal."""
    submitted: list[str] = field(default_factory=list[str])
    stored: list[str] = field(default_factory=list[str])
    asked: dict[str, str] = field(default_factory=dict[str, str])
    """Purpose by key."""
    answered: set[str] = field(default_factory=set[str])
    kept: set[str] = field(default_factory=set[str])
    reporting: bool = False
    died_at: str = ""

    def hear(self, line: str) -> None:
        match line.split():
            case ["submit", key]:
                self.submitted.append(key)
            case ["stored", key]:
                self.stored.append(key)
            case ["ask", purpose, key]:
                self.asked[key] = purpose
            case ["answered", key]:
                self.answered.add(key)
            case ["kept", key]:
                self.kept.add(key)
            case ["report"]:
                self.reporting = True
            case ["died", *point]:
                self.died_at = " ".join(point)
            case _:
                raise AssertionError(f"the launcher said {line!r}")

    def at_work_on(self, phases: dict[str, str]) -> set[str]:
        """What the driver was doing when it ended; `phases` are those of all episodes, by key."""
        open_jobs = {phases[key] for key in set(self.submitted) - set(self.stored)}
        work = {purpose for key, purpose in self.asked.items() if key not in self.kept}
        work |= {"observe" for phase in open_jobs if phase == "rig/baseline"}
        work |= {"validate" for phase in open_jobs if "/round-" in phase}
        work |= {"check" for phase in open_jobs if "/check-" in phase}
        work |= {"remeasure" for phase in open_jobs if phase.startswith("remeasure/")}
        work |= {"report" for _ in range(self.reporting)} | {"commit" for _ in range(self.died_at == "commit")}
        return work


class Launcher:
    """The forking program. A driver lives until it ends, kills itself or is killed by `until`."""

    def __init__(self, process: subprocess.Popen[str]) -> None:
        self._process = process

    def start(
        self,
        config: Path,
        run_dir: Path,
        *,
        until: Callable[[Start], bool] | None = None,
        number: int = signal.SIGKILL,
        **order: Any,
    ) -> Start:
        """Start a driver and return when it has ended. It gets the signal `number` once `until` is true."""
        assert self._process.stdin is not None
        log = str(run_dir.with_name(f"{run_dir.name}.log"))
        self._process.stdin.write(
            json.dumps({"config": str(config), "run_dir": str(run_dir), "log": log, **order}) + "\n"
        )
        self._process.stdin.flush()
        lines = self._lines()
        start = Start(int(next(line for line in lines if line.startswith("pid")).split()[1]))
        wanted = until
        if wanted is not None and wanted(start):
            os.kill(start.pid, number)
            wanted = None
        for line in lines:
            if line.startswith("gone"):
                start.status = int(line.split()[1])
                return start
            start.hear(line)
            if wanted is not None and wanted(start):
                os.kill(start.pid, number)
                wanted = None
        raise AssertionError("the launcher ended")

    def _lines(self) -> Iterator[str]:
        assert self._process.stdout is not None
        return (line.rstrip("\n") for line in iter(self._process.stdout.readline, ""))


@contextmanager
def launcher() -> Generator[Launcher]:
    environment = {**os.environ, "PYTHONPATH": str(LAUNCHER.parents[1])}
    with subprocess.Popen(
        [sys.executable, str(LAUNCHER)], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, env=environment
    ) as process:
        yield Launcher(process)
        assert process.stdin is not None
        process.stdin.close()


@dataclass(frozen=True)
class Kept:
    """What a run folder holds."""

    episodes: dict[str, str]
    """Phase by key."""
    calls: frozenset[str]
    content: bytes


def kept_in(folder: Path) -> Kept:
    """Read a run folder, however its last driver ended; nothing where no run has begun in it."""
    if not (folder / "run.sqlite3").exists():
        return Kept({}, frozenset(), b"")
    try:
        store = RunStore.read(folder)
    except StoreError as error:
        assert "is empty" in str(error)  # noqa: PT017  any other is a damage
        return Kept({}, frozenset(), b"")
    with store:
        rows = [(key, phase) for key, phase, _ in store.episodes()]
        assert len(rows) == len(dict(rows)), "an episode is there twice"
        calls = frozenset(key for key, _ in store.records("model_call"))
        return Kept(dict(rows), calls, store.export_canonical())


def processes_of(folder: Path) -> list[int]:
    """Living processes that carry the label of the run in this folder."""
    return [pid for pid, _, label in labelled_processes() if label.run == run_id(folder)]


def no_process_left(folder: Path, seconds: float = 20.0) -> bool:
    return eventually(lambda: not processes_of(folder), seconds)


def wait_for(condition: Callable[[], bool], seconds: float = 30.0) -> None:
    until = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < until, "it did not come to pass in time"
        time.sleep(0.01)
