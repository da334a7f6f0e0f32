"""The jobs behind stored episodes: what each was played with, so that it can be played again."""

from __future__ import annotations

import json
import sqlite3
import zlib
from collections.abc import Mapping
from typing import cast

from envharness.core.canonical import canonical_json, digest
from envharness.core.types import JsonDict

OWN = ("env_seed", "policy_seed", "index")
"""The keys of a job that its neighbours in a batch do not share. All else is kept once for all that have it."""


def put_job(connection: sqlite3.Connection, key: str, job: Mapping[str, object]) -> None:
    """Keep a job under its key, within the caller's transaction. Putting it again changes nothing."""
    common = cast("JsonDict", {name: value for name, value in job.items() if name not in OWN})
    own = cast("JsonDict", {name: job[name] for name in OWN})
    name = digest(common)
    if connection.execute("SELECT 1 FROM job_parts WHERE digest = ?", (name,)).fetchone() is None:
        body = zlib.compress(canonical_json(common).encode())
        connection.execute("INSERT INTO job_parts VALUES (?, ?)", (name, body))
    connection.execute("INSERT OR REPLACE INTO jobs VALUES (?, ?, ?)", (key, name, canonical_json(own)))


def read_job(connection: sqlite3.Connection, key: str) -> JsonDict | None:
    """Return the job of an episode, or None where none was kept. Raises ValueError where it is damaged."""
    row = connection.execute(
        "SELECT body, own FROM jobs JOIN job_parts ON digest = common WHERE key = ?", (key,)
    ).fetchone()
    if row is None:
        return None
    try:
        return {**json.loads(zlib.decompress(row[0])), **json.loads(row[1])}
    except (zlib.error, TypeError) as error:
        raise ValueError(f"its job cannot be unpacked: {error}") from error
