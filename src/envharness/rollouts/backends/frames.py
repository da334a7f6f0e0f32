"""What driver and worker say to each other over their socket: frames of a kind, a ticket, an attempt and a payload."""

from __future__ import annotations

import struct
from collections.abc import Iterator
from dataclasses import dataclass

from envharness.core.errors import MachineryError

READY = b"Y"
"""Worker: everything is imported, jobs may come."""
JOB = b"J"
"""Driver: play this job (payload: its JSON)."""
RESULT = b"R"
"""Worker: the episode (payload: its JSON)."""
BUILT = b"B"
"""Worker: the stack of this job is built (payload: JSON list of its environments' ids that share a backend)."""
BEGUN = b"G"
"""Worker: the environment's thread has come to this job, whose time runs from now on."""
CUT = b"C"
"""Worker: this job will not be played to its end here, and has used so much of a model (payload: a Usage's JSON)."""
RETIRING = b"T"
"""Worker: give me no more jobs; I have played enough."""
STUCK = b"S"
"""Worker: an environment call hangs in me; end me."""

_HEADER = struct.Struct("!cQIQ")
_KINDS = frozenset({READY, JOB, RESULT, BUILT, BEGUN, CUT, RETIRING, STUCK})
MAX_PAYLOAD = 1 << 30


@dataclass(frozen=True)
class Frame:
    """One message."""

    kind: bytes
    ticket: int = 0
    attempt: int = 0
    payload: bytes = b""

    def encode(self) -> bytes:
        """Return the frame as it goes over the socket."""
        return _HEADER.pack(self.kind, self.ticket, self.attempt, len(self.payload)) + self.payload


class FrameReader:
    """Puts frames together from whatever pieces a socket delivers."""

    def __init__(self) -> None:
        self._buffer = bytearray()

    def feed(self, data: bytes) -> Iterator[Frame]:
        """Take bytes; yield the frames they complete. Raises MachineryError for what is no frame."""
        self._buffer += data
        while len(self._buffer) >= _HEADER.size:
            kind, ticket, attempt, length = _HEADER.unpack_from(self._buffer)
            if kind not in _KINDS or length > MAX_PAYLOAD:
                raise MachineryError(f"not a frame: kind {kind!r}, {length} bytes")
            end = _HEADER.size + length
            if len(self._buffer) < end:
                return
            payload = bytes(memoryview(self._buffer)[_HEADER.size : end])
            del self._buffer[:end]
            yield Frame(kind, ticket, attempt, payload)
