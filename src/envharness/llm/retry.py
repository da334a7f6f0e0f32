"""When a failed call is tried again: back-off with jitter, and what the server asks for."""

from __future__ import annotations

import random
from collections.abc import Mapping
from datetime import UTC, datetime
from email.utils import parsedate_to_datetime

FIRST_SECONDS = 0.5
LONGEST_BACKOFF_SECONDS = 30.0
LONGEST_WAIT_SECONDS = 300.0
"""A server that asks for a longer pause than this is not waited for."""


def backoff(failures: int, jitter: random.Random) -> float:
    """Return the seconds to wait after so many failures (1 or more).

    It doubles from half a second to half a minute; between half and all of it is drawn, so that calls that failed
    together do not come back together.
    """
    ceiling = min(FIRST_SECONDS * 2.0 ** min(failures - 1, 16), LONGEST_BACKOFF_SECONDS)
    return ceiling * (0.5 + 0.5 * jitter.random())


def retry_after(headers: Mapping[str, str], now: datetime | None = None) -> float | None:
    """Return the seconds that `Retry-After` (seconds or an HTTP date) or `Retry-After-Ms` asks for.

    None where neither header is there or can be read. A date that has passed is 0.0. Header names are lower-case.
    """
    if (milliseconds := _number(headers.get("retry-after-ms"))) is not None:
        return milliseconds / 1000.0
    text = headers.get("retry-after")
    if text is None:
        return None
    if (seconds := _number(text)) is not None:
        return seconds
    try:
        until = parsedate_to_datetime(text)
    except (ValueError, OverflowError):
        return None
    if until.tzinfo is None:
        until = until.replace(tzinfo=UTC)
    return max((until - (now or datetime.now(UTC))).total_seconds(), 0.0)


def _number(text: str | None) -> float | None:
    """Return a finite number of at least 0, or None."""
    try:
        number = float(text or "")
    except ValueError:
        return None
    return number if 0.0 <= number < float("inf") else None
