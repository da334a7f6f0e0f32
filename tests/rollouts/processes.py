"""What processes there are, for tests that none is left behind."""

from __future__ import annotations

import time
from collections.abc import Callable
from pathlib import Path


def command_of(pid: int) -> str:
    """The command line of a living process; empty for one that is gone or a zombie."""
    try:
        return Path(f"/proc/{pid}/cmdline").read_bytes().replace(b"\0", b" ").decode("utf-8", "replace")
    except OSError:
        return ""


def descendants(pid: int) -> set[int]:
    """All living processes below `pid`."""
    parents: dict[int, int] = {}
    for entry in Path("/proc").glob("[0-9]*"):
        try:
            fields = (entry / "stat").read_text().rpartition(")")[2].split()
        except OSError:
            continue
        if fields[0] != "Z":
            parents[int(entry.name)] = int(fields[1])
    found: set[int] = set()
    while new := {child for child, parent in parents.items() if parent in {pid, *found}} - found:
        found |= new
    return found


def workers_of(pid: int) -> set[int]:
    return {child for child in descendants(pid) if "rollouts.backends.worker" in command_of(child)}


def eventually(condition: Callable[[], bool], seconds: float = 10.0) -> bool:
    """Whether `condition` comes true in time."""
    until = time.monotonic() + seconds
    while not condition():
        if time.monotonic() > until:
            return False
        time.sleep(0.02)
    return True
