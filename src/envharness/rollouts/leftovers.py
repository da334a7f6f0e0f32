"""What runs that were killed left behind, found by label and ended. Each kind of thing has one finder."""

from __future__ import annotations

import os
import sys
from collections.abc import Collection, Iterator
from dataclasses import dataclass
from typing import Protocol

from envharness.core.errors import MachineryError
from envharness.core.labels import MAX_ROUNDS, labelled_processes
from envharness.core.messages import printable
from envharness.core.processes import command_of, end_process, parent_of

_SHOWN = 100
"""Characters of a command line in a listing."""


@dataclass(frozen=True)
class Leftover:
    """Something that carries a run's label."""

    kind: str
    """The finder that found it, such as `process`."""
    id: int
    """Process id."""
    began: int
    """Clock ticks since boot."""
    run: str
    driver: int
    """Process id of the run's driver."""
    driver_began: int
    driver_lives: bool
    description: str
    """What to show a person: the beginning of its command line."""


class Finder(Protocol):
    """Finds and ends the leftovers of one kind."""

    def find(self) -> Iterator[Leftover]:
        """Yield all that carries a label of ours, also where its driver lives."""
        ...

    def end(self, leftover: Leftover) -> bool:
        """End one; False where it could not be ended. One that is gone by itself counts as ended."""
        ...


class Processes:
    """Processes of this user on this machine."""

    def find(self) -> Iterator[Leftover]:
        """Yield labelled processes. Raises MachineryError where the system does not show what a process carries."""
        if not sys.platform.startswith("linux"):
            raise MachineryError("leftover processes are found by their environment in /proc, which only Linux has")
        above = _above(os.getpid())
        for pid, began, label in labelled_processes():
            if pid in above:
                continue  # a command that a policy or an environment runs must not end what runs it
            shown = printable(command_of(pid))[:_SHOWN]
            yield Leftover("process", pid, began, label.run, label.driver, label.started, label.driver_lives(), shown)

    def end(self, leftover: Leftover) -> bool:
        """Kill it."""
        return end_process(leftover.id, leftover.began)


FINDERS: dict[str, Finder] = {"process": Processes()}
"""By kind. A module that starts other things than processes (containers) adds the finder that knows their labels."""


@dataclass(frozen=True)
class Cleaned:
    """What was found, by what became of it."""

    ended: tuple[Leftover, ...] = ()
    """With `dry_run`: what would be ended."""
    kept: tuple[Leftover, ...] = ()
    """Left alone, because the driver lives."""
    refused: tuple[Leftover, ...] = ()
    """Could not be ended."""


def clean_up(runs: Collection[str] | None, *, force: bool = False, dry_run: bool = False) -> Cleaned:
    """End what the runs of these ids (None: all) left behind.

    What belongs to a living driver is left alone, except with `force`, where the driver itself is ended first; nothing
    that it finished is lost. Looks again until nothing is left, for what is being ended may start something.
    """
    ended: dict[tuple[str, int, int], Leftover] = {}
    refused: dict[tuple[str, int, int], Leftover] = {}
    kept: dict[tuple[str, int, int], Leftover] = {}
    for _ in range(MAX_ROUNDS):
        fresh = [item for item in _found(runs) if _identity(item) not in refused]
        kept = {_identity(item): item for item in fresh if item.driver_lives and not force}
        doomed = [item for item in fresh if _identity(item) not in kept]
        if dry_run or not doomed:
            ended |= {_identity(item): item for item in doomed}
            break
        above = _above(os.getpid())
        for driver, began in {(item.driver, item.driver_began) for item in doomed if item.driver_lives}:
            if driver not in above:
                end_process(driver, began)
        for item in doomed:
            outcome = ended if FINDERS[item.kind].end(item) else refused
            outcome[_identity(item)] = item
    return Cleaned(tuple(ended.values()), tuple(kept.values()), tuple(refused.values()))


def _found(runs: Collection[str] | None) -> Iterator[Leftover]:
    for finder in FINDERS.values():
        yield from (item for item in finder.find() if runs is None or item.run in runs)


def _identity(item: Leftover) -> tuple[str, int, int]:
    return item.kind, item.id, item.began


def _above(pid: int) -> set[int]:
    """Return a process and all above it."""
    found = set[int]()
    while pid > 0 and pid not in found:
        found.add(pid)
        pid = parent_of(pid)
    return found
