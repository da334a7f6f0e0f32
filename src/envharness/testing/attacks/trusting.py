"""The control of attacks on the channel: a client that takes whatever comes for the answer to what it asked."""

from __future__ import annotations

import socket
import struct
from typing import Any

import orjson

from envharness.core.types import Action
from envharness.sandbox.launcher import current_zygote
from envharness.sandbox.limits import HookLimits
from envharness.sandbox.protocol import FILTER_ACTION, HEADER, LOAD, pack_frame
from envharness.testing.attacks.attack import BREACH

_PATIENCE = 2.0
"""Seconds after which a read counts as one that never ends."""


def believed(source: str, limits: HookLimits) -> list[str]:
    """Talk to an unguarded hook process without any check; the harms that this client came to."""
    zygote = current_zygote()
    child = zygote.fork(limits, guarded=False)
    try:
        child.channel.settimeout(_PATIENCE)
        return _converse(child.channel, source)
    finally:
        child.channel.close()
        zygote.end(child.ticket)
        if child.pidfd is not None:
            socket.close(child.pidfd)


def _converse(channel: socket.socket, source: str) -> list[str]:
    try:
        _read(channel)
        for number, request in enumerate(_requests(source), start=1):
            channel.sendall(pack_frame(number, orjson.dumps(request), b"{}"))
            asked, reply = _read(channel)
            if asked != number:
                return [f"took the reply to {asked} for the reply to {number}"]
            if BREACH.encode() in orjson.dumps(reply):
                return ["took a forged reply for what the hook returned"]
            if request["op"] == FILTER_ACTION:
                Action(**reply["action"])
            elif set(reply["loaded"]["overridden"]) - {FILTER_ACTION}:
                return ["takes a hook for overridden that does not exist"]
    except (TimeoutError, MemoryError) as error:
        return ["waits for ever" if isinstance(error, TimeoutError) else "makes room for more than there is"]
    except (ValueError, KeyError, TypeError, struct.error, OSError) as error:
        return [f"fails with {type(error).__name__}: {error}"]
    return []


def _requests(source: str) -> list[dict[str, Any]]:
    call: dict[str, Any] = {"op": FILTER_ACTION, "action": {"name": "work", "kwargs": {}}}
    return [{"op": LOAD, "source": source, "seed": 0}, call, call]


def _read(channel: socket.socket) -> tuple[int, Any]:
    length, number, _ = HEADER.unpack(_exactly(channel, HEADER.size))
    if length >= 2**22:
        raise MemoryError
    return number, orjson.loads(_exactly(channel, length))


def _exactly(channel: socket.socket, size: int) -> bytes:
    data = b""
    while len(data) < size:
        chunk = channel.recv(size - len(data))
        if not chunk:
            raise ConnectionResetError("end of file")
        data += chunk
    return data
