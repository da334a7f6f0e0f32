"""Processes as /proc shows them: when they began, what they carry, who is below them; and how one is ended."""

from __future__ import annotations

import os
import select
import signal
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

PROC = Path("/proc")
_START_TIME = 19
_PARENT = 1
"""Places in /proc/PID/stat, counted from the field after the name."""
_BLOCK = 1 << 17
_END_SECONDS = 2.0
"""What the kernel may take to end a killed process; one that waits for a dead disk takes longer."""


def start_time(pid: int) -> int | None:
    """Return when a process began, in clock ticks since boot; None where none of that number lives (or no /proc is).

    With it a number names one process for good: a number is used again, a number and its start are not.
    """
    fields = _stat(pid)
    return None if fields is None or fields[0] in {"Z", "X"} else int(fields[_START_TIME])


def parent_of(pid: int) -> int:
    """Return the parent's process id; 0 where there is none."""
    fields = _stat(pid)
    return 0 if fields is None else int(fields[_PARENT])


def own_processes() -> Iterator[int]:
    """Yield the numbers of this user's processes, this one left out. Nothing where the system has no /proc."""
    user, own = os.geteuid(), os.getpid()
    with suppress(OSError), os.scandir(PROC) as entries:
        for entry in entries:
            if entry.name.isdigit() and int(entry.name) != own:
                with suppress(OSError):
                    if entry.stat().st_uid == user:
                        yield int(entry.name)


def environment_of(pid: int, *, holding: bytes = b"") -> dict[str, str]:
    """Return the variables a process was started with.

    Empty where it is gone, may not be looked at, or where `holding` occurs nowhere in them: to look through all
    processes for a few.
    """
    try:
        descriptor = os.open(f"{PROC}/{pid}/environ", os.O_RDONLY | os.O_CLOEXEC)
    except OSError:
        return {}
    try:
        block = b""
        while piece := os.read(descriptor, _BLOCK):
            block += piece
    except OSError:
        return {}
    finally:
        os.close(descriptor)
    if holding not in block:
        return {}
    pairs = (entry.decode("utf-8", "replace").partition("=") for entry in block.split(b"\0") if b"=" in entry)
    return {name: value for name, _, value in pairs}


def command_of(pid: int) -> str:
    """Return a process's command line; empty where it is gone."""
    try:
        return (PROC / str(pid) / "cmdline").read_bytes().replace(b"\0", b" ").decode("utf-8", "replace").strip()
    except OSError:
        return ""


def in_this_namespace(pid: int) -> bool:
    """Whether a process counts processes as this one does; the numbers a container's process knows mean others here."""
    try:
        return (PROC / str(pid) / "ns" / "pid").readlink() == (PROC / "self" / "ns" / "pid").readlink()
    except OSError:
        return False


def descendants(pid: int) -> dict[int, int]:
    """Return all living processes below one, with their start times."""
    parents: dict[int, list[tuple[int, int]]] = {}
    with suppress(OSError), os.scandir(PROC) as entries:
        for entry in entries:
            fields = _stat(int(entry.name)) if entry.name.isdigit() else None
            if fields is not None and fields[0] not in {"Z", "X"}:
                parents.setdefault(int(fields[_PARENT]), []).append((int(entry.name), int(fields[_START_TIME])))
    found: dict[int, int] = {}
    waiting = [pid]
    while waiting:
        for child, started in parents.get(waiting.pop(), []):
            if child not in found:
                found[child] = started
                waiting.append(child)
    return found


def end_process(pid: int, started: int) -> bool:
    """Kill the process of that number and start, and wait until it is gone. False where it could not be ended."""
    try:
        descriptor = os.pidfd_open(pid)
    except ProcessLookupError:
        return True
    except (OSError, AttributeError):  # an old kernel, or no Linux
        return _end_by_number(pid, started)
    try:
        # Looked at again with the process in hand: the number may have passed to another in between.
        if start_time(pid) == started:
            signal.pidfd_send_signal(descriptor, signal.SIGKILL)
            ready = select.poll()
            ready.register(descriptor, select.POLLIN)
            return bool(ready.poll(_END_SECONDS * 1000))
    except ProcessLookupError:
        return True
    except PermissionError:
        return False
    finally:
        os.close(descriptor)
    return True


def _end_by_number(pid: int, started: int) -> bool:
    if start_time(pid) != started:
        return True
    try:
        os.kill(pid, signal.SIGKILL)
    except ProcessLookupError:
        return True
    except PermissionError:
        return False
    return True


def _stat(pid: int) -> list[str] | None:
    """Return what follows the name in /proc/PID/stat; a name may hold spaces and brackets."""
    try:
        with (PROC / str(pid) / "stat").open("rb") as file:
            return file.read().rpartition(b")")[2].decode().split()
    except OSError:
        return None
