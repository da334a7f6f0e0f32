"""A collection: JSON records in one SQLite file that many runs share, added whole transactions at a time.

Records are only ever added, and a key that is there keeps its record, so adding twice is adding once.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Generator, Mapping
from contextlib import closing, contextmanager
from dataclasses import dataclass
from pathlib import Path

from envharness.core.errors import StoreError, UnknownIdError

BUSY_SECONDS = 10.0
"""How long a call waits for another process that writes."""


@dataclass(frozen=True)
class CollectionKind:
    """A kind of collection: what it is called, what tells its files from others, and its tables."""

    name: str
    """As messages call it: `component bank`."""
    application_id: int
    version: int
    tables: tuple[str, ...]
    how_to_make: str
    """How a file comes to be, with `{path}` in it, for the message where there is none."""

    def read(self, path: Path) -> dict[str, list[tuple[str, str]]]:
        """Return (key, JSON) of every record by table, in order of keys, all as of one moment.

        Raises UnknownIdError where there is no such file, StoreError where it is none of this kind. A missing file is
        never an empty collection: a mistyped path would otherwise pass for one that knows nothing.
        """
        if not path.is_file():
            raise UnknownIdError(f"there is no {self.name} at {path}; {self.how_to_make.format(path=path)}")
        with self._errors(path), closing(_connected(f"{path.absolute().as_uri()}?mode=ro")) as connection:
            self._require(connection, path)
            connection.execute("BEGIN")
            return {
                table: connection.execute(f"SELECT key, body FROM {table} ORDER BY key").fetchall()  # noqa: S608
                for table in self.tables
            }

    def add(self, path: Path, records: Mapping[str, Mapping[str, str]]) -> dict[str, int]:
        """Add what is not there yet, all or nothing; the file is made where there is none.

        Returns how many are new, by table. Raises StoreError where the file is of another kind or cannot be written.
        """
        with self._errors(path):
            path.parent.mkdir(parents=True, exist_ok=True)
            with closing(_connected(f"{path.absolute().as_uri()}?mode=rwc")) as connection:
                connection.execute("BEGIN IMMEDIATE")
                try:
                    self._create(connection)
                    self._require(connection, path)
                    added = {table: _insert(connection, table, rows) for table, rows in records.items()}
                    connection.execute("COMMIT")
                except BaseException:
                    if connection.in_transaction:
                        connection.execute("ROLLBACK")
                    raise
        return added

    def _create(self, connection: sqlite3.Connection) -> None:
        """Make the tables where the file is new."""
        known = connection.execute("SELECT count(*) FROM sqlite_master").fetchone()[0]
        if known or connection.execute("PRAGMA application_id").fetchone()[0]:
            return
        for table in self.tables:
            connection.execute(f"CREATE TABLE {table} (key TEXT PRIMARY KEY, body TEXT NOT NULL) WITHOUT ROWID")
        connection.execute(f"PRAGMA application_id = {self.application_id}")
        connection.execute(f"PRAGMA user_version = {self.version}")

    def _require(self, connection: sqlite3.Connection, path: Path) -> None:
        if connection.execute("PRAGMA application_id").fetchone()[0] != self.application_id:
            raise StoreError(f"{path} is not a {self.name}; give the path of one")
        version = connection.execute("PRAGMA user_version").fetchone()[0]
        if version != self.version:
            raise StoreError(
                f"{path}: {self.name} of version {version} is not known here (this version reads {self.version})"
            )

    @contextmanager
    def _errors(self, path: Path) -> Generator[None]:
        """Turn SQLite's and the file system's errors into one line that names the file."""
        try:
            yield
        except sqlite3.Error as error:
            reason = str(error)
            if "not a database" in reason:
                reason = f"this is not a {self.name}"
            elif "locked" in reason:
                reason = f"another process held it for {BUSY_SECONDS:g} s; try again when it is done"
            raise StoreError(f"{path}: {reason}") from error
        except OSError as error:
            raise StoreError(f"{path}: {error.strerror}") from error


def _connected(uri: str) -> sqlite3.Connection:
    return sqlite3.connect(uri, uri=True, timeout=BUSY_SECONDS, isolation_level=None)


def _insert(connection: sqlite3.Connection, table: str, rows: Mapping[str, str]) -> int:
    """Insert what is new; return how much that was."""
    insert = f"INSERT OR IGNORE INTO {table} VALUES (?, ?)"  # noqa: S608  a table's name is constant text
    return sum(connection.execute(insert, row).rowcount == 1 for row in rows.items())
