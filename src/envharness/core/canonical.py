"""The one canonical text of a JSON value, for comparing and hashing: equal values, equal text, in every process."""

from __future__ import annotations

import hashlib
import json

from pydantic import JsonValue


def canonical_json(value: JsonValue) -> str:
    """Serialize with sorted keys and no spaces, so that equal values are equal text. Raises ValueError for NaN."""
    # The standard library's encoder, because JSON from an environment may hold integers of more than 64 bits.
    return json.dumps(value, sort_keys=True, separators=(",", ":"), allow_nan=False)


def digest(value: JsonValue, length: int = 32) -> str:
    """Return the first `length` hexadecimal digits of a hash of the canonical text. Raises ValueError for NaN."""
    return hashlib.sha256(canonical_json(value).encode()).hexdigest()[:length]
