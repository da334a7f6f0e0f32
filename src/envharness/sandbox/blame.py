"""Decides whose fault a missed deadline or a dead hook process is: the hook's or the machine's.

A hook that ran, slept or waited through its deadline is at fault. One that wanted to run and was given hardly any CPU
is not: that is the machine's failure, and may be retried.
"""

from __future__ import annotations

import signal
import sys
import time
from pathlib import Path
from typing import Any

STARVED_SHARE = 0.05
"""A process that got less CPU than this share of its deadline, and is runnable or stopped at the end of it, starved.

Small, because an honest hook is done in a fraction of it: one that had more and is not done would not be done with all.
"""

_WANTS_TO_RUN = "RDTt"  # running or in the queue; waiting for a disk or for memory; stopped by somebody


def cpu_seconds(pid: int) -> float | None:
    """CPU time that process `pid` has used, user and system; None when it is gone or the system cannot say."""
    if sys.platform != "linux":
        return None
    try:
        return time.clock_gettime((~pid << 3) | 2)  # the kernel's number for another process's CPU clock
    except OSError:
        return None


def process_state(pid: int) -> str | None:
    """The letter that Linux gives to what the process does (`R` runs, `S` sleeps …), None when it is not known."""
    try:
        status = Path(f"/proc/{pid}/stat").read_text(encoding="utf-8", errors="replace")
    except OSError:
        return None
    return status.rpartition(")")[2].split()[0]


def starved(pid: int, cpu_before: float | None, seconds: float) -> bool:
    """Whether the machine kept the process from running through a deadline of `seconds`."""
    cpu_after = cpu_seconds(pid)
    if cpu_before is None or cpu_after is None:
        return False
    state = process_state(pid)
    return state is not None and state in _WANTS_TO_RUN and cpu_after - cpu_before < STARVED_SHARE * seconds


def describe_end(ended: dict[str, Any], cpu_limit: int) -> str:
    """Why a hook process is gone, from its exit code and its CPU time."""
    code = ended.get("exit_code")
    if not isinstance(code, int):
        return "its process is gone"
    if code >= 0:
        return f"it ended its process (exit status {code})"
    try:
        name = signal.Signals(-code).name
    except ValueError:
        name = f"signal {-code}"
    used = ended.get("cpu_seconds", 0.0)
    if -code in (signal.SIGKILL, signal.SIGXCPU) and used >= cpu_limit - 0.5:
        return f"it used up its {cpu_limit} s of CPU for the episode"
    if -code in (signal.SIGSEGV, signal.SIGBUS, signal.SIGABRT):
        return f"its process crashed ({name}), as deep recursion or exhausted memory can make it"
    return f"its process was killed ({name})"
