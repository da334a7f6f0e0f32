"""One request and one reply with a hook process that may be hostile, under one deadline for both directions.

The peer may not read, may stop in the middle of a frame, may send more than was asked for, or before it was asked.
None of these can make an exchange last longer than its deadline or return bytes of another exchange.
"""

from __future__ import annotations

import select
import socket
from time import monotonic

from envharness.sandbox.protocol import HEADER, FrameError, Spin, parse_header

_CHUNK = 65536


class ChannelClosedError(Exception):
    """The peer closed its end: it died or ended itself."""


class ChannelDeadlineError(Exception):
    """The exchange did not finish in time. The message says how far it got."""


class Channel:
    """The parent's end of a session's socket, which must be non-blocking."""

    def __init__(self, peer: socket.socket, frame_bytes: int) -> None:
        self._peer = peer
        self._frame_bytes = frame_bytes
        self._poll = select.poll()
        self._poll.register(peer, select.POLLIN)

    def close(self) -> None:
        """Close this end."""
        self._peer.close()

    def exchange(self, frame: bytes, request_id: int, seconds: float) -> bytes:
        """Send `frame`, return the body of the reply to it.

        `ChannelClosedError`, `ChannelDeadlineError`, or `FrameError` for bytes that no honest peer sends.
        """
        deadline = monotonic() + seconds
        if self._receive_now():
            raise FrameError("data was waiting before anything was asked: a forged frame")
        self._send(frame, deadline)
        return self.receive(request_id, deadline)

    def receive(self, request_id: int, deadline: float) -> bytes:
        """The body of the next frame, which must carry `request_id` and be the only one there."""
        inbox = self._receive_until(bytearray(), HEADER.size, deadline)
        header = parse_header(memoryview(inbox)[: HEADER.size].tobytes(), self._frame_bytes)
        if header.request_id != request_id:
            raise FrameError(f"a reply to request {header.request_id}, but {request_id} was asked: a forged frame")
        if header.body_length != header.length:
            raise FrameError("a reply that carries a state: a forged frame")
        end = HEADER.size + header.length
        self._receive_until(inbox, end, deadline)
        if len(inbox) > end:
            raise FrameError("more data after the reply: a forged frame")
        return bytes(memoryview(inbox)[HEADER.size :])

    def _receive_now(self) -> bytes | None:
        """What is there now: None for nothing."""
        try:
            chunk = self._peer.recv(_CHUNK)
        except BlockingIOError:
            return None
        except ConnectionError as error:
            raise ChannelClosedError(str(error)) from error
        if not chunk:
            raise ChannelClosedError("end of file")
        return chunk

    def _send(self, frame: bytes, deadline: float) -> None:
        rest = memoryview(frame)
        while rest:
            try:
                rest = rest[self._peer.send(rest, socket.MSG_NOSIGNAL) :]
            except BlockingIOError:
                self._wait_for_room(deadline)
            except ConnectionError as error:
                raise ChannelClosedError(str(error)) from error

    def _wait_for_room(self, deadline: float) -> None:
        self._poll.modify(self._peer, select.POLLOUT | select.POLLIN)
        try:
            events = self._wait(deadline)
        finally:
            self._poll.modify(self._peer, select.POLLIN)
        if not events:
            raise ChannelDeadlineError("it did not take the whole request")
        if events & select.POLLIN:
            self._receive_now()  # end of file raises here
            raise FrameError("a reply before the whole request was read: a forged frame")

    def _receive_until(self, inbox: bytearray, wanted: int, deadline: float) -> bytearray:
        spin = Spin()
        late = False
        while len(inbox) < wanted:
            chunk = self._receive_now()
            if chunk is not None:
                inbox += chunk
            elif late:
                raise ChannelDeadlineError("half a reply came" if inbox else "no reply came")
            elif not spin.again():
                # After the deadline look once more: if this process was the one kept waiting, the reply is there.
                late = not self._wait(deadline)
        return inbox

    def _wait(self, deadline: float) -> int:
        """Sleep until something happens or the deadline passes; the events, 0 for none."""
        events = self._poll.poll(max(0.0, deadline - monotonic()) * 1000)
        return events[0][1] if events else 0
