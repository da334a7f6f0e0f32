"""A model's server in a process of its own, for benchmarks of those who ask it: cheap, and always the same answer.

It understands just enough HTTP for the clients of this package. What misbehaves on purpose is `FaultServer`.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import re
import subprocess
import sys
from collections.abc import Generator
from contextlib import contextmanager

_LENGTH = re.compile(rb"\r\ncontent-length: *(\d+)", re.IGNORECASE)
_END = b"\r\n\r\n"


@contextmanager
def model_server(*, latency: float = 0.0, text: str = "ok", call: str = "") -> Generator[str]:
    """Serve the same answer to everyone after `latency` seconds; gives the address.

    `call` names a tool that the answer calls without arguments.
    """
    options = ["--latency", str(latency), "--text", text, "--call", call]
    command = [sys.executable, "-m", "benchmarks.model_server", *options]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as server:
        try:
            assert server.stdout is not None
            yield server.stdout.readline().strip()
        finally:
            server.terminate()


class _Conversation(asyncio.Protocol):
    """One connection: request after request, each answered after the latency. GET says how many there were."""

    answered = 0

    def __init__(self, reply: bytes, latency: float) -> None:
        self._reply = reply
        self._latency = latency
        self._received = b""
        self._transport: asyncio.WriteTransport | None = None

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        assert isinstance(transport, asyncio.WriteTransport)
        self._transport = transport

    def connection_lost(self, exc: Exception | None) -> None:  # noqa: ARG002  the protocol's own signature
        self._transport = None

    def data_received(self, data: bytes) -> None:
        self._received += data
        while (end := self._received.find(_END)) >= 0:
            length = _LENGTH.search(self._received, 0, end)
            complete = end + len(_END) + (int(length[1]) if length else 0)
            if len(self._received) < complete:
                return
            asked, self._received = self._received[:4], self._received[complete:]
            if asked == b"GET ":
                self._say_how_many()
                continue
            _Conversation.answered += 1
            if self._latency:
                asyncio.get_running_loop().call_later(self._latency, self._answer)
            else:
                self._answer()

    def _answer(self) -> None:
        if self._transport is not None:
            self._transport.write(self._reply)

    def _say_how_many(self) -> None:
        if self._transport is not None:
            number = str(_Conversation.answered).encode()
            self._transport.write(b"HTTP/1.1 200 OK\r\ncontent-length: %d\r\n\r\n%s" % (len(number), number))


def _reply(text: str, call: str) -> bytes:
    message: dict[str, object] = {"role": "assistant", "content": text}
    if call:
        function = {"name": call, "arguments": "{}"}
        message["tool_calls"] = [{"id": "call-0", "type": "function", "function": function}]
    choice = {"index": 0, "message": message, "finish_reason": "tool_calls" if call else "stop"}
    usage = {"prompt_tokens": 10, "completion_tokens": 2, "total_tokens": 12}
    body = json.dumps({"id": "x", "object": "chat.completion", "model": "m", "choices": [choice], "usage": usage})
    head = f"HTTP/1.1 200 OK\r\ncontent-type: application/json\r\ncontent-length: {len(body)}\r\n\r\n"
    return (head + body).encode()


async def _serve(reply: bytes, latency: float) -> None:
    server = await asyncio.get_running_loop().create_server(
        lambda: _Conversation(reply, latency), "127.0.0.1", 0, backlog=4096
    )
    print(f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}/v1", flush=True)
    await server.serve_forever()


def main() -> None:
    """Serve until the process is ended."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--latency", type=float, default=0.0)
    parser.add_argument("--text", default="ok")
    parser.add_argument("--call", default="")
    options = parser.parse_args()
    asyncio.run(_serve(_reply(options.text, options.call), options.latency))


if __name__ == "__main__":
    main()
