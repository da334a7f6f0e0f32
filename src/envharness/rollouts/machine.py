"""What this machine, or the part of it that this process may use, has: cores, free memory, descriptors."""

from __future__ import annotations

import math
import os
import resource
from contextlib import suppress
from pathlib import Path

from envharness.rollouts.sizing import Machine

MOST_FILES = 1 << 16
"""Descriptors are raised up to this, even where more are allowed: some programs close all they may have, one by one."""
_CGROUPS = Path("/sys/fs/cgroup")
_PROC = Path("/proc")


def this_machine() -> Machine:
    """Look at the machine as it is now."""
    return Machine(cores=usable_cores(), memory=free_memory(), files=files_allowed())


def usable_cores(*, proc: Path = _PROC, cgroups: Path = _CGROUPS) -> int:
    """Return how many processors this process may use: its affinity, and the quota of its cgroup, rounded up."""
    available = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    quotas = [quota for folder in _groups("cpu", proc, cgroups) if (quota := _quota(folder)) is not None]
    return max(min([available, *(math.ceil(quota) for quota in quotas)]), 1)


def free_memory(*, proc: Path = _PROC, cgroups: Path = _CGROUPS) -> int | None:
    """Return the bytes that can be taken before something must give; None where the system does not say.

    It is what the machine has free, or what is left of a cgroup's limit, whichever is less.
    """
    free: list[int] = []
    with suppress(OSError, ValueError, StopIteration):
        lines = (proc / "meminfo").read_text().splitlines()
        free.append(int(next(line for line in lines if line.startswith("MemAvailable:")).split()[1]) * 1024)
    for folder in _groups("memory", proc, cgroups):
        for limit, used in (("memory.max", "memory.current"), ("memory.limit_in_bytes", "memory.usage_in_bytes")):
            most, now = _number(folder / limit), _number(folder / used)
            if most is not None and now is not None:
                free.append(max(most - now + _reclaimable(folder), 0))
    return min(free, default=None)


def resident_memory(pid: int, *, proc: Path = _PROC) -> int | None:
    """Return the bytes a process holds in memory; None where it is gone or the system does not say."""
    try:
        pages = int((proc / str(pid) / "statm").read_text().split()[1])
    except (OSError, ValueError, IndexError):
        return None
    return pages * resource.getpagesize()


def files_allowed() -> int:
    """Return how many descriptors a process may open once it has raised its limit."""
    hard = resource.getrlimit(resource.RLIMIT_NOFILE)[1]
    return MOST_FILES if hard == resource.RLIM_INFINITY else min(hard, MOST_FILES)


def raise_files() -> None:
    """Let this process open as many descriptors as it may."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    wanted = files_allowed()
    if soft != resource.RLIM_INFINITY and soft < wanted:
        with suppress(OSError, ValueError):
            resource.setrlimit(resource.RLIMIT_NOFILE, (wanted, hard))


def _groups(controller: str, proc: Path, cgroups: Path) -> list[Path]:
    """Return the folders of this process's cgroup and those above it, of either version.

    Inside a container the path is often that of the host, and only the mounted root is there.
    """
    folders: list[Path] = []
    with suppress(OSError):
        for line in (proc / "self" / "cgroup").read_text().splitlines():
            _, controllers, path = line.split(":", 2)
            if controllers and controller not in controllers.split(","):
                continue
            root = cgroups / controller if controllers else cgroups
            inner = root / path.lstrip("/")
            folders += [folder for folder in (inner, *inner.parents) if folder == root or root in folder.parents]
    return folders


def _quota(folder: Path) -> float | None:
    """Return the processors that a cgroup may use; None is no limit."""
    with suppress(OSError, ValueError):
        quota, period = (folder / "cpu.max").read_text().split()
        return None if quota == "max" else int(quota) / int(period)
    most, period_v1 = _number(folder / "cpu.cfs_quota_us"), _number(folder / "cpu.cfs_period_us")
    return most / period_v1 if most is not None and period_v1 and most > 0 else None


def _reclaimable(folder: Path) -> int:
    """Return the bytes of a cgroup that only cache files, and are given back when needed."""
    with suppress(OSError, ValueError):
        for line in (folder / "memory.stat").read_text().splitlines():
            name, _, value = line.partition(" ")
            if name in {"inactive_file", "total_inactive_file"}:
                return int(value)
    return 0


def _number(path: Path) -> int | None:
    try:
        return int(path.read_text())
    except (OSError, ValueError):  # not there, or `max`
        return None
