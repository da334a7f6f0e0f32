"""An exchange ends at its deadline and never takes foreign bytes for a reply, whatever the peer does."""

from __future__ import annotations

import socket
from collections.abc import Iterator
from time import monotonic

import pytest
from hypothesis import given
from hypothesis import strategies as st

from envharness.sandbox.channel import Channel, ChannelClosedError, ChannelDeadlineError
from envharness.sandbox.protocol import HEADER, FrameError, pack_frame, parse_header

LIMIT = 1 << 20


@pytest.fixture
def ends() -> Iterator[tuple[Channel, socket.socket]]:
    ours, theirs = socket.socketpair()
    ours.setblocking(False)
    with ours, theirs:
        yield Channel(ours, LIMIT), theirs


def test_a_reply_comes_back(ends: tuple[Channel, socket.socket]) -> None:
    channel, peer = ends
    peer.sendall(pack_frame(4, b"body"))
    assert channel.receive(4, monotonic() + 5) == b"body"


def test_data_that_waits_before_the_request_is_forged(ends: tuple[Channel, socket.socket]) -> None:
    channel, peer = ends
    peer.sendall(pack_frame(1, b"early"))
    with pytest.raises(FrameError, match="before anything was asked"):
        channel.exchange(pack_frame(1, b"x"), 1, 5)


def test_a_peer_that_does_not_read_cannot_hold_the_sender(ends: tuple[Channel, socket.socket]) -> None:
    channel, _peer = ends
    begin = monotonic()
    with pytest.raises(ChannelDeadlineError, match="did not take the whole request"):
        channel.exchange(pack_frame(1, b"x" * (LIMIT * 8)), 1, 0.2)
    assert monotonic() - begin < 2


def test_a_reply_before_the_whole_request_was_read_is_forged(ends: tuple[Channel, socket.socket]) -> None:
    channel, peer = ends
    frame = pack_frame(1, b"x" * (LIMIT * 8))
    peer.setblocking(False)
    original = Channel._wait_for_room

    def answer_first(self: Channel, deadline: float) -> None:
        peer.sendall(pack_frame(1, b"{}"))
        original(self, deadline)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(Channel, "_wait_for_room", answer_first)
        with pytest.raises(FrameError, match="before the whole request was read"):
            channel.exchange(frame, 1, 5)


@pytest.mark.parametrize("sent", [1, HEADER.size, HEADER.size + 3])
def test_a_frame_that_stops_half_way_ends_at_the_deadline(ends: tuple[Channel, socket.socket], sent: int) -> None:
    channel, peer = ends
    peer.sendall(pack_frame(1, b"a whole body")[:sent])
    begin = monotonic()
    with pytest.raises(ChannelDeadlineError, match="half a reply came"):
        channel.receive(1, begin + 0.1)
    assert 0.09 < monotonic() - begin < 2


def test_silence_ends_at_the_deadline(ends: tuple[Channel, socket.socket]) -> None:
    with pytest.raises(ChannelDeadlineError, match="no reply came"):
        ends[0].receive(1, monotonic() + 0.05)


def test_a_reply_that_is_there_when_the_deadline_has_passed_still_counts(ends: tuple[Channel, socket.socket]) -> None:
    channel, peer = ends
    peer.sendall(pack_frame(1, b"in time, seen late"))
    assert channel.receive(1, monotonic() - 1) == b"in time, seen late"


@pytest.mark.parametrize(
    ("data", "match"),
    [
        (pack_frame(2, b"{}"), "a reply to request 2, but 1 was asked"),
        (pack_frame(1, b"{}") + b"x", "more data after the reply"),
        (pack_frame(1, b"{}", b"{}"), "carries a state"),
        (HEADER.pack(LIMIT + 1, 1, LIMIT + 1), "the limit is"),
        (HEADER.pack(1, 1, 2), "a body of 2 bytes in a frame of 1"),
        (b"\xff" * 4096, "the limit is"),
    ],
)
def test_bytes_that_no_honest_peer_sends(ends: tuple[Channel, socket.socket], data: bytes, match: str) -> None:
    channel, peer = ends
    peer.sendall(data)
    with pytest.raises(FrameError, match=match):
        channel.receive(1, monotonic() + 5)


@pytest.mark.parametrize("sent", [b"", b"\0", pack_frame(1, b"body")[:-1]])
def test_a_closed_peer_is_told_apart(ends: tuple[Channel, socket.socket], sent: bytes) -> None:
    channel, peer = ends
    peer.sendall(sent)
    peer.close()
    with pytest.raises(ChannelClosedError):
        channel.receive(1, monotonic() + 5)


@given(number=st.integers(0, 2**32 - 1), body=st.binary(max_size=300), state=st.binary(max_size=300))
def test_what_is_packed_is_parsed(number: int, body: bytes, state: bytes) -> None:
    frame = pack_frame(number, body, state)
    header = parse_header(frame[: HEADER.size], LIMIT)
    assert header.request_id == number
    rest = frame[HEADER.size :]
    assert (rest[: header.body_length], rest[header.body_length : header.length]) == (body, state)
    assert len(rest) == header.length


@given(data=st.binary(min_size=HEADER.size, max_size=HEADER.size))
def test_any_header_is_within_limits_or_refused(data: bytes) -> None:
    try:
        header = parse_header(data, 1000)
    except FrameError:
        return
    assert header.body_length <= header.length <= 1000
