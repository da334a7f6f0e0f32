"""What a worker, a staging process and its children say to each other: length-prefixed JSON frames on a socket."""

from __future__ import annotations

import json
import socket
import struct
from collections.abc import Sequence

from envharness.core.types import JsonDict

_LENGTH = struct.Struct("!Q")
_CHUNK = 1 << 18


def send(channel: socket.socket, message: JsonDict, descriptors: Sequence[int] = ()) -> None:
    """Send one frame. Raises TypeError or ValueError, with nothing sent, for what is not JSON."""
    # The standard library's encoder: it takes all that an environment may hold (NaN, integers of any size, half a
    # surrogate pair) and gives it back as it was.
    data = json.dumps(message, separators=(",", ":")).encode()
    frame = _LENGTH.pack(len(data)) + data
    if descriptors:
        frame = frame[socket.send_fds(channel, [frame], descriptors) :]
    channel.sendall(frame)


def receive(channel: socket.socket) -> JsonDict:
    """Wait for one frame. Raises EOFError where the other side is gone."""
    return receive_with_descriptors(channel, 0)[0]


def receive_with_descriptors(channel: socket.socket, most: int) -> tuple[JsonDict, list[int]]:
    """Wait for one frame and the descriptors that come with it, at most so many."""
    data, descriptors, end = bytearray(), list[int](), _LENGTH.size
    while len(data) < end:
        if most:
            chunk, received, _, _ = socket.recv_fds(channel, _CHUNK, most)
            descriptors += received
        else:
            chunk = channel.recv(_CHUNK)
        if not chunk:
            raise EOFError("the other side is gone")
        data += chunk
        if len(data) >= _LENGTH.size:
            # Nothing comes after a frame: the other side waits for the answer to it.
            end = _LENGTH.size + _LENGTH.unpack_from(data)[0]
    message: JsonDict = json.loads(memoryview(data)[_LENGTH.size :].tobytes())
    return message, descriptors
