"""The label that every process of a run carries in its environment block, so that a leftover is known for what it is.

It says which run, which driver, and which part of the driver's tree. It holds no secret: hooks may read it.
"""

from __future__ import annotations

import itertools
import os
import re
from collections.abc import Generator, Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass, replace
from hashlib import sha256
from pathlib import Path
from typing import Self

from envharness.core.processes import end_process, environment_of, in_this_namespace, own_processes, start_time

RUN = "ENVHARNESS_RUN"
"""The variable that names the run."""
ORIGIN = "ENVHARNESS_ORIGIN"
"""The variable that names driver and part: `PID:START`, then the numbers of the parts, each after a slash."""
UNNAMED = "unnamed"
"""The run of processes that were started outside any run folder."""
MAX_ROUNDS = 50
"""Looks for processes to end: those that fork while they are being ended show up in the next one."""

_ORIGIN = re.compile(r"(\d+):(\d+)((?:/\d+)*)", re.ASCII)
_SIGN = f"{ORIGIN}=".encode()
_parts = itertools.count(1)
_own: list[Label] = []


@dataclass(frozen=True)
class Label:
    """Which run a process belongs to, and where in it."""

    run: str
    driver: int
    """Process id of the driver."""
    started: int
    """When the driver began, in clock ticks since boot; 0 where the system does not say."""
    part: str = ""
    """Numbers of the parts it lies in, each after a slash: `/3/1` is the first program of the third worker."""

    def variables(self) -> dict[str, str]:
        """Return the label as it stands in an environment block."""
        return {RUN: self.run, ORIGIN: f"{self.driver}:{self.started}{self.part}"}

    def new_part(self) -> Label:
        """Return the label of a part that is ended as a whole, whatever process groups its processes are in."""
        return replace(self, part=f"{self.part}/{next(_parts)}")

    def holds(self, other: Label) -> bool:
        """Whether a process labelled `other` lies within the part that this label names."""
        same_driver = (self.driver, self.started) == (other.driver, other.started)
        return same_driver and f"{other.part}/".startswith(f"{self.part}/")

    def driver_lives(self) -> bool:
        """Whether the driver is still there, and not another process that got its number."""
        return start_time(self.driver) == self.started

    @classmethod
    def read(cls, variables: Mapping[str, str]) -> Self | None:
        """Return the label in an environment block, or None where there is none."""
        found = _ORIGIN.fullmatch(variables.get(ORIGIN, ""))
        if found is None or RUN not in variables:
            return None
        return cls(variables[RUN], int(found[1]), int(found[2]), found[3])


def run_id(folder: Path) -> str:
    """Return the name of a run folder's run in labels: 16 hexadecimal digits, made of where the folder lies."""
    return sha256(os.fsencode(folder.resolve())).hexdigest()[:16]


def current_label() -> Label:
    """Return what this process labels its children with.

    Inside `labelled`, that; in a process of a run, its own; elsewhere this process is a driver of no named run.
    """
    if _own:
        return _own[-1]
    own = os.getpid()
    return Label.read(os.environ) or Label(UNNAMED, own, start_time(own) or 0)


@contextmanager
def labelled(run: str) -> Generator[Label]:
    """Within it this process is the driver of `run`: what it starts, from whatever thread, is labelled so."""
    own = os.getpid()
    label = Label(run, own, start_time(own) or 0)
    _own.append(label)
    try:
        yield label
    finally:
        _own.remove(label)


def labelled_processes() -> Iterator[tuple[int, int, Label]]:
    """Yield (process id, start time, label) of this user's labelled processes; nothing where there is no /proc."""
    for pid in own_processes():
        label = Label.read(environment_of(pid, holding=_SIGN))
        started = None if label is None else start_time(pid)
        if label is not None and started is not None and in_this_namespace(pid):
            yield pid, started, label


def end_part(label: Label) -> bool:
    """End every process whose label lies within `label`, those too that left their group or session.

    Returns False where some could not be ended. One that wiped its own environment is not found.
    """
    for _ in range(MAX_ROUNDS):
        found = [(pid, started) for pid, started, other in labelled_processes() if label.holds(other)]
        if not found:
            return True
        stubborn = [pid for pid, started in found if not end_process(pid, started)]
        for pid, _ in found:
            with suppress(ChildProcessError):  # an orphan that became our child, where we are a subreaper
                os.waitpid(pid, os.WNOHANG)
        if stubborn:
            return False
    return False
