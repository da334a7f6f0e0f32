"""The database file: its tables, its version, how it is opened, and its errors in one clear line."""

from __future__ import annotations

import os
import sqlite3
from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path

from envharness.core.errors import StoreError
from envharness.core.messages import printable
from envharness.core.processes import command_of

DATABASE_FILE = "run.sqlite3"
SCHEMA_VERSION = 3
_LOCK_FIELDS = 8
BUSY_SECONDS = 5.0
"""How long a call waits for a foreign process (a shell, a backup) that holds the file."""

_APPLICATION_ID = 0x456E7648  # "EnvH": tells a run database from any other SQLite file
_TABLES = """
CREATE TABLE facts (name TEXT PRIMARY KEY, value TEXT NOT NULL) WITHOUT ROWID;
CREATE TABLE episodes (
    key TEXT PRIMARY KEY,
    phase TEXT NOT NULL,
    task TEXT NOT NULL,
    position INTEGER NOT NULL,
    final INTEGER NOT NULL,
    session INTEGER NOT NULL,
    outcome TEXT NOT NULL,
    reason TEXT NOT NULL,
    steps INTEGER NOT NULL,
    seconds REAL NOT NULL,
    usage TEXT NOT NULL,
    body BLOB NOT NULL
);
CREATE INDEX episodes_in_order ON episodes (phase, task, position, key);
CREATE INDEX episodes_of_task ON episodes (task, phase, position, key);
CREATE INDEX episodes_that_cost ON episodes (task, usage) WHERE usage <> '';
CREATE TABLE jobs (key TEXT PRIMARY KEY, common TEXT NOT NULL, own TEXT NOT NULL) WITHOUT ROWID;
CREATE TABLE job_parts (digest TEXT PRIMARY KEY, body BLOB NOT NULL) WITHOUT ROWID;
CREATE TABLE records (kind TEXT NOT NULL, key TEXT NOT NULL, body TEXT NOT NULL, PRIMARY KEY (kind, key));
"""


@contextmanager
def store_errors(path: Path) -> Generator[None]:
    """Turn SQLite's errors into StoreErrors that name the file and say what to do."""
    try:
        yield
    except sqlite3.Error as error:
        raise StoreError(f"{path}: {_explain(error, path)}") from error


def _explain(error: sqlite3.Error, path: Path) -> str:
    text = str(error)
    hints = {
        "not a database": "this is not a run database; move it away or use another run folder",
        "malformed": "the database is damaged; restore it or use another run folder",
        "disk is full": "the disk is full; free some space and run the same command again, it goes on from here",
        "disk I/O error": "the disk refused a write or read; check its space, quota and health, then run again",
        "database is locked": f"{_holder(path)} held the database for {BUSY_SECONDS:g} s; close it and run again",
        "readonly": "the database cannot be written; check the permissions of the run folder",
        "unable to open": "the database cannot be opened; check that the run folder exists and is writable",
    }
    hint = next((hint for part, hint in hints.items() if part in text), None)
    return f"{hint} ({text})" if hint else text


def _holder(path: Path) -> str:
    """Name the process that holds a lock on the database, as far as this system says."""
    files = {file.stat().st_ino for file in (path, path.with_name(f"{path.name}-shm")) if file.exists()}
    try:
        locks = [line.split() for line in Path("/proc/locks").read_text().splitlines()]
    except OSError:
        return "another program"
    # Number, POSIX or FLOCK, ADVISORY, WRITE or READ, process, device and inode, from, to. One that waits has an arrow.
    holders = {int(fields[4]) for fields in locks if len(fields) == _LOCK_FIELDS and _inode(fields[5]) in files}
    named = [f"process {pid} ({printable(command_of(pid))[:80]})" for pid in sorted(holders - {os.getpid()})]
    return ", ".join(named) or "another program"


def _inode(place: str) -> int:
    return int(place.rpartition(":")[2])


def open_for_writing(path: Path, *, check: bool = False) -> sqlite3.Connection:
    """Open or create the database. Raises StoreError where the file is foreign, damaged or unwritable.

    `check` looks at every page first: a copy that was made while a run wrote may hold pages of two times.
    """
    with store_errors(path):
        connection = sqlite3.connect(path, timeout=BUSY_SECONDS, isolation_level=None)
        try:
            if check:
                _require_whole(connection, path)
            _create_or_check(connection, path)
            connection.execute("PRAGMA journal_mode = WAL")
            sync_commits(connection, True)
        except (sqlite3.Error, StoreError):
            connection.close()
            raise
        return connection


def _require_whole(connection: sqlite3.Connection, path: Path) -> None:
    try:
        found = connection.execute("PRAGMA integrity_check(1)").fetchone()[0]
    except sqlite3.DatabaseError as error:
        if "malformed" not in str(error):
            raise
        found = str(error)
    if found != "ok":
        raise StoreError(
            f"{path}: this copy of a run is damaged ({printable(found)[:80]}), as one made in mid-run can be; "
            "copy the folder again while no run works on it"
        )


def sync_commits(connection: sqlite3.Connection, wanted: bool) -> None:
    """Choose whether a commit waits for the disk.

    Without, a commit survives the death of this process, but a power cut may take the last ones, in order from the
    end. The next commit that does wait makes all before it safe as well.
    """
    connection.execute(f"PRAGMA synchronous = {'FULL' if wanted else 'NORMAL'}")


def open_for_reading(path: Path) -> sqlite3.Connection:
    """Open an existing database that is not to be changed, also on a read-only file system or beside a writer."""
    if not path.is_file():
        raise StoreError(f"{path.parent} holds no run: there is no {path.name} in it")
    location = path.absolute().as_uri()
    with store_errors(path):
        try:
            return _checked(f"{location}?mode=ro", path)
        except sqlite3.OperationalError:
            # A reader of a WAL database needs a shared-memory file beside it. Where none can be made and no log is
            # waiting, the file is all there is and nobody can be changing it.
            if path.with_name(f"{path.name}-wal").exists():
                raise
            return _checked(f"{location}?immutable=1", path)


def _checked(uri: str, path: Path) -> sqlite3.Connection:
    connection = sqlite3.connect(uri, uri=True, timeout=BUSY_SECONDS, isolation_level=None)
    try:
        begun = _is_run_database(connection, path)
    except (sqlite3.Error, StoreError):
        connection.close()
        raise
    if not begun:
        connection.close()
        raise StoreError(f"{path}: the database is empty; the run stopped before it began")
    return connection


def _create_or_check(connection: sqlite3.Connection, path: Path) -> None:
    if _is_run_database(connection, path):
        return
    # One transaction: a process killed in here leaves an empty database, which the next one fills.
    connection.executescript(
        f"BEGIN IMMEDIATE;{_TABLES}"
        f"PRAGMA application_id = {_APPLICATION_ID}; PRAGMA user_version = {SCHEMA_VERSION}; COMMIT;"
    )


def _is_run_database(connection: sqlite3.Connection, path: Path) -> bool:
    """Return False for an empty database; raise StoreError for a foreign one or one of another schema version."""
    application = connection.execute("PRAGMA application_id").fetchone()[0]
    if application == _APPLICATION_ID:
        version = connection.execute("PRAGMA user_version").fetchone()[0]
        if version != SCHEMA_VERSION:
            raise StoreError(
                f"{path}: schema version {version} is not known here (this version reads {SCHEMA_VERSION}); "
                "use the version of envharness that wrote it, or another run folder"
            )
        return True
    if application or connection.execute("SELECT count(*) FROM sqlite_master").fetchone()[0]:
        raise StoreError(f"{path}: a database of another program; use another run folder")
    return False
