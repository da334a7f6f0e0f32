"""The run database: one folder a run, one writer, and every call either took effect for good or did nothing."""

from __future__ import annotations

import json
import sqlite3
import zlib
from collections.abc import Generator, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from types import TracebackType
from typing import Self, cast

from pydantic import JsonValue, ValidationError

from envharness.core.canonical import canonical_json
from envharness.core.errors import ConfigChangedError, DamagedEntryError, StoreError
from envharness.core.messages import one_line
from envharness.core.trace import Episode
from envharness.core.types import JsonDict
from envharness.core.usage import Usage
from envharness.core.version import VERSION
from envharness.store.content import episode_content, record_content
from envharness.store.episode_rows import EpisodeNote, PhaseCount, numbers_of, packed
from envharness.store.jobs import put_job, read_job
from envharness.store.lock import RunLock
from envharness.store.sameness import differences, version_series
from envharness.store.schema import DATABASE_FILE, open_for_reading, open_for_writing, store_errors, sync_commits

LIVE = "live/"
"""Prefix of the kinds of records that may be replaced; they are not part of a run's content."""

CHEAP_SECONDS = 0.1
"""An episode that took less, without a model call, is made anew sooner than many waits for the disk take."""


_PLACES = ", ".join("?" * 12)


class RunStore:
    """A run's episodes and decisions. Made by `open` (one writer) or `read` (any number of readers).

    What a method did when it returned survives the end of the process at any instant; one that raised StoreError did
    nothing. Decisions, and episodes that were paid for, survive a power cut too. Use it from one thread.
    """

    def __init__(self, connection: sqlite3.Connection, folder: Path, lock: RunLock | None) -> None:
        """Use `open` or `read` instead."""
        self.folder = folder
        self._path = folder / DATABASE_FILE
        self._connection = connection
        self._lock = lock
        self._session = 0
        self.config: JsonDict = {}
        """What decides the content of the run; empty until it has begun."""
        self.command = ""
        """The command that the run belongs to."""
        self.version = ""
        """The version of this package that began the run; empty where that was one that did not say."""

    @classmethod
    def open(cls, folder: Path, *, config: JsonDict, command: str, resume: bool = True) -> RunStore:
        """Create the run in `folder`, or go on with it.

        `config` holds whatever decides the run's content, and nothing else: no number of workers, no paths.
        Raises RunLockedError where another process works on it, ConfigChangedError naming the keys that differ, or
        the version of this package where that is of another series (`0.1`, `0.2`) than the one that began it, and
        StoreError where the folder cannot be used or, with `resume` False, already holds a run.
        """
        try:
            folder.mkdir(parents=True, exist_ok=True)
        except (OSError, ValueError) as error:  # ValueError: a name that no file can have
            name, reason = (folder, error.strerror) if isinstance(error, OSError) else (repr(str(folder)), error)
            raise StoreError(f"cannot make the run folder {name}: {reason}") from error
        lock = RunLock(folder)
        lock.acquire()
        try:
            store = cls(open_for_writing(folder / DATABASE_FILE, check=lock.copied), folder, lock)
        except BaseException:
            lock.release()
            raise
        try:
            store._begin(config, command, resume=resume)
        except BaseException:
            store.close()
            raise
        return store

    @classmethod
    def read(cls, folder: Path) -> RunStore:
        """Open a run for reading, finished or in progress; takes no lock and changes nothing."""
        store = cls(open_for_reading(folder / DATABASE_FILE), folder, None)
        try:
            store._load_facts()
        except StoreError:
            store.close()
            raise
        return store

    def forget_empty(self) -> None:
        """Take back the configuration where no rollout and no decision rests on it: the folder is free for another."""
        with self._transaction():
            empty = "NOT EXISTS (SELECT 1 FROM episodes) AND NOT EXISTS (SELECT 1 FROM records)"
            self._connection.execute(f"DELETE FROM facts WHERE {empty}")  # noqa: S608  constant text

    def close(self) -> None:
        """Close the database and give back the lock. Idempotent."""
        self._connection.close()
        if self._lock is not None:
            self._lock.release()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self.close()

    # --- episodes ----------------------------------------------------------------------------------------------------

    def put_episode(self, key: str, phase: str, episode: Episode, job: Mapping[str, object] | None = None) -> None:
        """Keep an episode under its job's key, and the job. The first one stays, unless it was invalid and run again.

        What the replaced one used is added to the new one's `wasted`: the episodes hold all that was paid for.

        An invalid episode is kept as well, so that a report can show it. One that a component's fault made invalid is
        final like a valid one: another run of it would end the same way.
        """
        final = episode.valid or episode.outcome.reason == "component_fault"
        body = packed(key, episode)
        with self._transaction(sync=episode.usage.calls > 0 or episode.seconds >= CHEAP_SECONDS):
            found = self._connection.execute(
                "SELECT final, session, body FROM episodes WHERE key = ?", (key,)
            ).fetchone()
            if found is not None:
                if found[0] or (not final and found[1] == self._session):
                    return
                former = self._decode(key, found[2])
                wasted = episode.wasted + former.usage + former.wasted
                episode = episode.model_copy(update={"wasted": wasted})
                body = packed(key, episode)
            if job is not None:
                put_job(self._connection, key, job)
            row = (key, phase, episode.task, episode.index, final, self._session, *numbers_of(episode), body)
            self._connection.execute(f"INSERT OR REPLACE INTO episodes VALUES ({_PLACES})", row)  # noqa: S608  constant

    def get_episode(self, key: str) -> Episode | None:
        """Return the episode of a completed rollout, or None where there is none.

        An invalid episode that an earlier start of this run left behind does not count as completed: whoever resumes
        gets None for it and runs it again. (Not so for one made invalid by a component's fault, nor with `read`.)
        """
        with store_errors(self._path):
            row = self._connection.execute(
                "SELECT body FROM episodes WHERE key = ? AND (final OR session >= ?)", (key, self._session)
            ).fetchone()
        return None if row is None else self._decode(key, row[0])

    def get_job(self, key: str) -> JsonDict | None:
        """Return what an episode was played with (a RolloutJob as JSON), or None where that was not kept."""
        with store_errors(self._path):
            try:
                return read_job(self._connection, key)
            except ValueError as error:
                raise DamagedEntryError(f"{self._path}: episode {key} is damaged: {one_line(error)}") from error

    def episodes(self, *, task: str | None = None, phase: str | None = None) -> Iterator[tuple[str, str, Episode]]:
        """Yield (key, phase, episode), ordered by phase, task, index and key; all of them, invalid ones included.

        One at a time is in memory, and the caller may write while it iterates.
        """
        for key, found_phase, body in self._bodies(task, phase):
            yield key, found_phase, self._decode(key, body)

    def episode_keys(self, *, task: str | None = None, phase: str | None = None, prefix: str = "") -> list[str]:
        """Return the keys of all episodes that begin with `prefix`, ordered by phase, task, index and key."""
        return [key for key, _ in self._keys(task, phase) if key.startswith(prefix)]

    def episode_notes(self, keys: Sequence[str]) -> list[EpisodeNote]:
        """Return what is noted beside the bodies of these episodes, in this order, without those that are not there."""
        found: list[EpisodeNote] = []
        with store_errors(self._path):
            for key in keys:
                row = self._connection.execute(
                    "SELECT key, phase, task, position, outcome, reason, steps, seconds FROM episodes WHERE key = ?",
                    (key,),
                ).fetchone()
                if row is not None:
                    found.append(EpisodeNote(*row))
        return found

    def usages(self) -> Iterator[tuple[str, Usage]]:
        """Yield (task, usage) for each episode that called a model, attempts that came to nothing included.

        Ordered by task. No episode is decoded for it.
        """
        with store_errors(self._path):
            rows: list[tuple[str, str]] = self._connection.execute(
                "SELECT task, usage FROM episodes WHERE usage <> '' ORDER BY task, usage"
            ).fetchall()
        for task, text in rows:
            try:
                yield task, Usage.model_validate_json(text)
            except ValidationError as error:
                raise DamagedEntryError(
                    f"{self._path}: an episode of {task!r} is damaged: {one_line(error)}"
                ) from error

    def phase_counts(self) -> list[PhaseCount]:
        """Return how many episodes each phase has, how many of them were won and how many are invalid, by phase."""
        with store_errors(self._path):
            rows = self._connection.execute(
                "SELECT phase, COUNT(*), SUM(outcome = 'success'), SUM(outcome = 'invalid') FROM episodes "
                "GROUP BY phase ORDER BY phase"
            ).fetchall()
        return [PhaseCount(*row) for row in rows]

    def has_valid(self) -> bool:
        """Whether any episode is valid; looks no further than the first one."""
        with store_errors(self._path):
            found = self._connection.execute("SELECT EXISTS (SELECT 1 FROM episodes WHERE outcome <> 'invalid')")
            return bool(found.fetchone()[0])

    def newest_invalid(self) -> Episode | None:
        """Return the invalid episode that was kept last, or None where every one is valid."""
        with store_errors(self._path):
            row = self._connection.execute(
                "SELECT key, body FROM episodes WHERE outcome = 'invalid' ORDER BY rowid DESC LIMIT 1"
            ).fetchone()
        return None if row is None else self._decode(*row)

    def _keys(self, task: str | None, phase: str | None) -> list[tuple[str, str]]:
        """Return (key, phase) in order, from an index alone."""
        given = {"task": task, "phase": phase}
        where = " AND ".join(f"{name} = :{name}" for name, value in given.items() if value is not None) or "1"
        with store_errors(self._path):
            return self._connection.execute(
                f"SELECT key, phase FROM episodes WHERE {where} ORDER BY phase, task, position, key",  # noqa: S608  constant
                given,
            ).fetchall()

    def _bodies(self, task: str | None = None, phase: str | None = None) -> Iterator[tuple[str, str, bytes]]:
        for key, found_phase in self._keys(task, phase):
            with store_errors(self._path):
                row = self._connection.execute("SELECT body FROM episodes WHERE key = ?", (key,)).fetchone()
            yield key, found_phase, row[0]

    def _decode(self, key: str, body: bytes) -> Episode:
        try:
            return Episode.model_validate_json(self._unpack(key, body))
        except ValidationError as error:
            raise DamagedEntryError(f"{self._path}: episode {key} is damaged: {one_line(error)}") from error

    def _unpack(self, key: str, body: bytes) -> bytes:
        try:
            return zlib.decompress(body)
        except (zlib.error, TypeError) as error:
            raise DamagedEntryError(f"{self._path}: episode {key} is damaged: {one_line(error)}") from error

    # --- records -----------------------------------------------------------------------------------------------------

    def put_record(self, kind: str, key: str, body: JsonDict) -> None:
        """Keep a decision. Putting an equal one again does nothing; times, workers and folders in it do not count.

        Raises StoreError where a different body is there already, except for kinds that begin with `live/`.
        """
        try:
            text = json.dumps(body, sort_keys=True, allow_nan=False)
        except (TypeError, ValueError) as error:
            raise StoreError(f"record {kind} {key!r} is not JSON: {one_line(error)}") from error
        with self._transaction():
            found = self.get_record(kind, key)
            if found is not None and not kind.startswith(LIVE):
                if canonical_json(record_content(found)) == canonical_json(record_content(json.loads(text))):
                    return
                raise StoreError(
                    f"{self._path}: record {kind} {key!r} is there already and differs; a decision is never rewritten"
                )
            self._connection.execute("INSERT OR REPLACE INTO records VALUES (?, ?, ?)", (kind, key, text))

    def get_record(self, kind: str, key: str) -> JsonDict | None:
        """Return a record's body, or None where there is none."""
        with store_errors(self._path):
            row = self._connection.execute(
                "SELECT body FROM records WHERE kind = ? AND key = ?", (kind, key)
            ).fetchone()
        return None if row is None else self._parse(f"record {kind} {key!r}", row[0])

    def record_keys(self, kind: str) -> list[str]:
        """Return the keys of a kind, in order."""
        with store_errors(self._path):
            rows = self._connection.execute("SELECT key FROM records WHERE kind = ? ORDER BY key", (kind,)).fetchall()
        return [key for (key,) in rows]

    def records(self, kind: str) -> Iterator[tuple[str, JsonDict]]:
        """Yield (key, body) of a kind, ordered by key."""
        with store_errors(self._path):
            rows: list[tuple[str, str]] = self._connection.execute(
                "SELECT key, body FROM records WHERE kind = ? ORDER BY key", (kind,)
            ).fetchall()
        for key, text in rows:
            yield key, self._parse(f"record {kind} {key!r}", text)

    # --- the whole ---------------------------------------------------------------------------------------------------

    def export_canonical(self) -> bytes:
        """Return the run's content as JSON lines in a canonical order: configuration, episodes, records.

        Clocks, workers, attempts, the run's folder and `live/` records are left out, so that two runs of equal content
        give equal bytes, wherever and however often interrupted they ran.
        """
        lines: list[JsonDict] = [{"command": self.command, "config": self.config}]
        for key, phase, body in self._bodies():
            episode = self._parse(f"episode {key}", self._unpack(key, body))
            lines.append({"episode": episode_content(episode), "key": key, "phase": phase})
        with store_errors(self._path):
            kinds = [row[0] for row in self._connection.execute("SELECT DISTINCT kind FROM records ORDER BY kind")]
        for kind in kinds:
            if not kind.startswith(LIVE):
                lines += [
                    {"kind": kind, "key": key, "record": record_content(body)} for key, body in self.records(kind)
                ]
        return b"".join(canonical_json(cast("JsonValue", line)).encode() + b"\n" for line in lines)

    # --- inside ------------------------------------------------------------------------------------------------------

    def _begin(self, config: JsonDict, command: str, *, resume: bool) -> None:
        """Write down what the run is, or check that it is still the same."""
        try:
            text = canonical_json(cast("JsonValue", config))
        except ValueError as error:
            raise StoreError(f"{self.folder}: the configuration is not JSON: {one_line(error)}") from error
        with self._transaction():
            self._load_facts()
            if self._session:
                if not resume:
                    raise StoreError(f"{self.folder} holds a run already; resume it or use another run folder")
                self._require_same(json.loads(text), command)
            self.config, self.command, self._session = json.loads(text), command, self._session + 1
            self.version = self.version or VERSION
            facts = {"config": text, "command": command, "session": str(self._session), "version": self.version}
            self._connection.executemany("INSERT OR REPLACE INTO facts VALUES (?, ?)", facts.items())

    def _require_same(self, config: JsonDict, command: str) -> None:
        if self.version and version_series(self.version) != version_series(VERSION):
            raise ConfigChangedError(
                f"{self.folder} was begun with envharness {self.version}, and {VERSION} may decide otherwise from "
                f"the same rollouts. Go on with it under {version_series(self.version)}, or use another run folder"
            )
        changes = differences({"command": self.command, **self.config}, {"command": command, **config})
        if changes:
            raise ConfigChangedError(
                f"{self.folder} was started with another configuration: {'; '.join(changes)}. "
                "Give the former values to go on with it, or use another run folder"
            )

    def _load_facts(self) -> None:
        with store_errors(self._path):
            facts = dict(self._connection.execute("SELECT name, value FROM facts").fetchall())
        if not facts:
            return
        try:
            self.config = self._parse("the configuration", facts["config"])
            self.command = facts["command"]
            self.version = facts.get("version", "")
            # A reader is of no session: everything counts for it.
            self._session = int(facts["session"]) if self._lock is not None else 0
        except (KeyError, ValueError) as error:
            raise StoreError(f"{self._path}: what the run is was damaged: {one_line(error)}") from error

    def _parse(self, what: str, text: str | bytes) -> JsonDict:
        try:
            found = json.loads(text)
        except ValueError as error:
            raise DamagedEntryError(f"{self._path}: {what} is damaged: {error}") from error
        if not isinstance(found, dict):
            raise DamagedEntryError(f"{self._path}: {what} is damaged: it is no object")
        return cast("JsonDict", found)

    @contextmanager
    def _transaction(self, *, sync: bool = True) -> Generator[None]:
        """Do everything inside at once or not at all; `sync` waits until it is on the disk."""
        if self._lock is None:
            raise StoreError(f"{self.folder} was opened for reading")
        with store_errors(self._path):
            sync_commits(self._connection, sync)
            self._connection.execute("BEGIN IMMEDIATE")
            try:
                yield
                self._connection.execute("COMMIT")
            except BaseException:
                if self._connection.in_transaction:
                    self._connection.execute("ROLLBACK")
                raise
