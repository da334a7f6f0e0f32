"""A file of recorded answers: JSON lines, appended whole by any number of processes, the first answer stays."""

from __future__ import annotations

import fcntl
import json
import os
from pathlib import Path

from pydantic import BaseModel, ConfigDict, ValidationError

from envharness.core.errors import ConfigError
from envharness.llm.chat import ChatAnswer


class Entry(BaseModel):
    """One recorded answer. `request` is what it is found by; the rest is for readers of the file."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    request: str
    role: str = ""
    task: str = ""
    sample: str = ""
    asked: str = ""
    model: str = ""
    answer: ChatAnswer


class Recording:
    """The entries of a file. Others may append to it at the same time; a line that a kill cut short is not an entry."""

    def __init__(self, path: Path, *, must_exist: bool = False) -> None:
        """Read the file. Raises ConfigError where it is damaged, or missing though it must not be."""
        self.path = path
        self._entries: dict[str, Entry] = {}
        self._read_to = 0
        if must_exist and not path.is_file():
            raise ConfigError(f"recording: there is no file {path}; name one that exists, or give record_from")
        self._read_on()

    def find(self, request: str) -> Entry | None:
        """Return the entry of a request, also where another process has just written it; None where there is none."""
        if request not in self._entries:
            self._read_on()
        return self._entries.get(request)

    def add(self, entry: Entry) -> Entry:
        """Append an entry and wait for the disk. Returns what now counts: an entry that was faster, or this one."""
        try:
            self.path.parent.mkdir(parents=True, exist_ok=True)
            with self.path.open("ab") as file:
                fcntl.flock(file, fcntl.LOCK_EX)
                self._read_on()
                if entry.request in self._entries:
                    return self._entries[entry.request]
                start = b"" if self._ends_with_line() else b"\n"
                file.write(start + entry.model_dump_json(exclude_defaults=True).encode() + b"\n")
                file.flush()
                os.fsync(file.fileno())
        except OSError as error:
            raise ConfigError(f"recording: cannot write {self.path}: {error.strerror}") from error
        self._entries[entry.request] = entry
        return entry

    def _read_on(self) -> None:
        """Take in what was appended since the last look, up to the last complete line."""
        try:
            with self.path.open("rb") as file:
                file.seek(self._read_to)
                added = file.read()
        except FileNotFoundError:
            return
        except OSError as error:
            raise ConfigError(f"recording: cannot read {self.path}: {error.strerror}") from error
        complete = added[: added.rfind(b"\n") + 1]
        for line in complete.split(b"\n"):
            try:
                json.loads(line)
            except (ValueError, RecursionError):
                continue  # cut by a kill, and appended to since
            try:
                entry = Entry.model_validate_json(line)
            except ValidationError as error:
                raise ConfigError(f"recording: {self.path} holds a line that is no entry: {line[:60]!r}") from error
            self._entries.setdefault(entry.request, entry)
        self._read_to += len(complete)

    def _ends_with_line(self) -> bool:
        with self.path.open("rb") as file:
            size = file.seek(0, os.SEEK_END)
            if not size:
                return True
            file.seek(-1, os.SEEK_END)
            return file.read(1) == b"\n"
