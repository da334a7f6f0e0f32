"""The messages between a session and its hook process: names, and the layout of a frame.

A frame is a header of three little-endian unsigned 32-bit numbers (bytes that follow, request id, bytes of the body),
the body (one JSON object), and then the state (JSON, empty when it is the same as in the last frame that had one).
Frames from the child never carry a state.
"""

from __future__ import annotations

import os
import struct
from dataclasses import dataclass
from time import monotonic

FILTER_ACTION = "filter_action"
MODIFY_TRANSITION = "modify_transition"
FILTER_OBSERVATION = "filter_observation"
LOAD = "load"
HOOKS = (FILTER_ACTION, MODIFY_TRANSITION, FILTER_OBSERVATION)
"""The names of the three hooks, in the order in which a step calls them."""

AFTER_TRANSITION = "after_transition"
"""The request that runs `modify_transition` and then `filter_observation`."""
RESTART = "restart"
"""The request that runs the source again from the start: new instance, new extras, new random stream."""

READY_ID = 0
"""The request id of the child's first frame: sent unasked, once it is confined and before it has any source."""

HEADER = struct.Struct("<III")
CONTROL_LENGTH = struct.Struct("<I")
"""The header of a message between worker and zygote, who trust each other: bytes of JSON that follow."""

SPIN_SECONDS = 100e-6
"""How long either side looks for the other's frame before sleeping on it: being woken costs more than most hooks."""
_BUSY_SECONDS = 20e-6
"""A yield that takes longer has let another process run; one that found nobody takes a microsecond."""
REASON_CHARACTERS = 2000
"""A fault's reason is cut to this length, by the hook process and again by the session, which does not trust it."""


class Spin:
    """Looks for the other side's frame without sleeping, for `SPIN_SECONDS` and only while nobody wants the processor.

    Spinning pays where both sides have a processor each. Where others wait for one it is waste: a yield that takes long
    has let somebody run, and if that was not the other side with its answer, the next look shall sleep.
    """

    def __init__(self) -> None:
        self._last = monotonic()
        self._until = self._last + SPIN_SECONDS

    def again(self) -> bool:
        """Let others run; whether to look once more without sleeping. After False: look, then sleep."""
        if self._last >= self._until or not hasattr(os, "sched_yield"):
            return False
        os.sched_yield()
        now = monotonic()
        self._until = self._until if now - self._last < _BUSY_SECONDS else 0.0
        self._last = now
        return True


class FrameError(ValueError):
    """A header that no honest peer sends."""


@dataclass(frozen=True)
class FrameHeader:
    """A header that passed the checks. `length` counts body and state together, in bytes."""

    length: int
    request_id: int
    body_length: int


def pack_frame(request_id: int, body: bytes, state: bytes = b"") -> bytes:
    """Lay out one frame."""
    return HEADER.pack(len(body) + len(state), request_id, len(body)) + body + state


def parse_header(header: bytes | bytearray | memoryview, frame_bytes: int) -> FrameHeader:
    """Read a header; `FrameError` when it announces more than `frame_bytes` or a body longer than the frame."""
    length, request_id, body_length = HEADER.unpack(header)
    if length > frame_bytes:
        raise FrameError(f"a frame of {length} bytes; the limit is {frame_bytes}")
    if body_length > length:
        raise FrameError(f"a body of {body_length} bytes in a frame of {length}")
    return FrameHeader(length, request_id, body_length)
