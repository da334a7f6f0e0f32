"""The run folder's lock: one writer at a time, and whoever comes second learns who holds it."""

from __future__ import annotations

import fcntl
import json
import os
import socket
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from envharness.core.errors import RunLockedError, StoreError

LOCK_FILE = "run.lock"


class RunLock:
    """An exclusive lock on a run folder, held until `release` or the end of the process, however it ends.

    The kernel holds the lock (`flock`), so a killed process leaves none behind. The file's text only says who took it
    last; the file itself stays, because removing it would let two processes lock two different files.
    """

    def __init__(self, folder: Path) -> None:
        self.copied = False
        """Whether who took it last did so on another host or in another folder, of which this one is then a copy."""
        self._path = folder / LOCK_FILE
        self._descriptor: int | None = None

    def acquire(self) -> None:
        """Take the lock. Raises RunLockedError where another has it, StoreError where the folder is unusable."""
        try:
            descriptor = os.open(self._path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o644)
        except OSError as error:
            raise StoreError(f"cannot open {self._path}: {error.strerror}") from error
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
            text = _this_process(os.fstat(descriptor).st_ino)
            self.copied = _is_elsewhere(os.pread(descriptor, 4096, 0), text)
            os.ftruncate(descriptor, 0)
            os.pwrite(descriptor, text.encode(), 0)
        except BlockingIOError as error:
            holder = _describe_holder(os.pread(descriptor, 4096, 0))
            os.close(descriptor)
            raise RunLockedError(
                f"{self._path.parent} is in use by {holder}; wait for it, stop it, or use another run folder"
            ) from error
        except OSError as error:
            os.close(descriptor)
            raise StoreError(f"cannot lock {self._path}: {error.strerror}") from error
        self._descriptor = descriptor

    def release(self) -> None:
        """Give the lock back. Idempotent."""
        if self._descriptor is not None:
            os.close(self._descriptor)
            self._descriptor = None


def _this_process(inode: int) -> str:
    """Describe this process and the file; the inode is the file's own, so that a copy of it says another's."""
    since = datetime.now(UTC).isoformat(timespec="seconds")
    return json.dumps({"pid": os.getpid(), "host": socket.gethostname(), "since": since, "inode": inode}) + "\n"


def _is_elsewhere(former: bytes, current: str) -> bool:
    """Compare what the last holder wrote with what this one writes; where that is damaged, nothing is known."""
    try:
        before: Any = json.loads(former) if former else json.loads(current)
        now: Any = json.loads(current)
        return any(before.get(name) != now[name] for name in ("host", "inode"))
    except (ValueError, AttributeError):
        return True


def _describe_holder(text: bytes) -> str:
    """Describe the holder from the lock file, which may be empty in the instant between locking and writing."""
    try:
        holder: Any = json.loads(text)
        return f"process {holder['pid']} on {holder['host']} since {holder['since']}"
    except (ValueError, KeyError, TypeError):
        return "another process"
