"""A server of the OpenAI chat protocol on 127.0.0.1 that answers, and misbehaves, exactly as it is told."""

from __future__ import annotations

import argparse
import asyncio
import json
import threading
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from time import monotonic
from types import TracebackType
from typing import Self, cast

from envharness.core.types import JsonDict
from envharness.testing.fault_replies import Reply, answer

_STATUS_TEXT = {200: "OK", 400: "Bad Request", 401: "Unauthorized", 403: "Forbidden", 404: "Not Found"}
_START_SECONDS = 10.0


@dataclass(frozen=True)
class SeenRequest:
    """One request as it arrived."""

    path: str
    headers: Mapping[str, str]
    """Names in lower case."""
    body: JsonDict
    at: float
    """Seconds of the monotonic clock."""


Behaviour = Callable[[SeenRequest, int], Reply]
"""Given a request and its 0-based number, says how the server replies."""


def in_order(replies: Sequence[Reply]) -> Behaviour:
    """Reply with `replies` one after another; the last one again and again."""
    if not replies:
        raise ValueError("a script needs at least one reply")
    return lambda _, number: replies[min(number, len(replies) - 1)]


@dataclass
class FaultServer:
    """Serves while it is entered, in a thread of its own. Knows all that was asked of it."""

    behaviour: Behaviour = field(default_factory=lambda: in_order([answer("ok")]))
    port: int = 0
    """0: any free one; the real one while it serves."""
    requests: list[SeenRequest] = field(default_factory=list[SeenRequest])
    peak: int = 0
    """The most requests that were open at the same time."""

    def __post_init__(self) -> None:
        self._open = 0
        self._ready = threading.Event()
        self._loop: asyncio.AbstractEventLoop | None = None
        self._stop: asyncio.Event | None = None
        self._connections: set[asyncio.Task[None]] = set()
        self._thread = threading.Thread(target=lambda: asyncio.run(self.serve()), name="fault-server", daemon=True)

    @classmethod
    def replying(cls, *replies: Reply) -> FaultServer:
        """Return a server that replies with these, one after another; the last one again and again."""
        return cls(in_order(replies))

    @property
    def base_url(self) -> str:
        """The address for `Endpoint.base_url`."""
        return f"http://127.0.0.1:{self.port}/v1"

    def __enter__(self) -> Self:
        self._thread.start()
        if not self._ready.wait(_START_SECONDS):
            raise RuntimeError(f"the server did not start within {_START_SECONDS:g} s")
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        if self._loop is not None and self._stop is not None:
            self._loop.call_soon_threadsafe(self._stop.set)
        self._thread.join()

    async def serve(self) -> None:
        """Serve until told to stop."""
        self._loop, self._stop = asyncio.get_running_loop(), asyncio.Event()
        server = await asyncio.start_server(self._connected, "127.0.0.1", self.port, backlog=1024)
        self.port = server.sockets[0].getsockname()[1]
        self._ready.set()
        try:
            await self._stop.wait()
        finally:
            server.close()
            for connection in self._connections:
                connection.cancel()
            await asyncio.gather(*self._connections, return_exceptions=True)

    def _connected(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.get_running_loop().create_task(self._converse(reader, writer))
        self._connections.add(task)
        task.add_done_callback(self._connections.discard)

    async def _converse(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """Serve one connection, request after request."""
        try:
            while True:
                request = await _read(reader)
                number = len(self.requests)
                self.requests.append(request)
                self._open += 1
                self.peak = max(self.peak, self._open)
                try:
                    complete = await _send(writer, self.behaviour(request, number))
                finally:
                    self._open -= 1
                if not complete:
                    return
        except (asyncio.IncompleteReadError, ConnectionError):
            return  # the client is gone, which is its right
        finally:
            writer.transport.abort()


async def _read(reader: asyncio.StreamReader) -> SeenRequest:
    head = (await reader.readuntil(b"\r\n\r\n")).decode("latin-1")
    first, *lines = head.rstrip().split("\r\n")
    headers = {name.lower(): value.strip() for name, _, value in (line.partition(":") for line in lines)}
    raw = await reader.readexactly(int(headers.get("content-length", "0")))
    body = cast("JsonDict", json.loads(raw)) if raw else {}
    return SeenRequest(path=first.split(" ")[1], headers=headers, body=body, at=monotonic())


async def _send(writer: asyncio.StreamWriter, reply: Reply) -> bool:
    """Send a reply; False where the connection is not to be used again."""
    if reply.delay:
        await asyncio.sleep(reply.delay)
    if reply.hangs:
        await asyncio.Event().wait()
    lines = [f"HTTP/1.1 {reply.status} {_STATUS_TEXT.get(reply.status, 'Status')}"]
    headers = {"content-type": "application/json", "content-length": str(len(reply.body)), **reply.headers}
    lines += [f"{name}: {value}" for name, value in headers.items()]
    body = reply.body if reply.cut_after is None else reply.body[: reply.cut_after]
    writer.write("\r\n".join(lines).encode("latin-1") + b"\r\n\r\n" + body)
    await writer.drain()
    return reply.cut_after is None


def main() -> None:
    """Serve one answer after a latency until the process is ended; print the address first."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--latency", type=float, default=0.0, help="seconds before each answer")
    parser.add_argument("--text", default="ok", help="what every answer says")
    options = parser.parse_args()
    reply = answer(options.text, delay=options.latency)

    async def serve() -> None:
        server = FaultServer(lambda _request, _number: reply)
        task = asyncio.get_running_loop().create_task(server.serve())
        while not server.port:  # noqa: ASYNC110  a few milliseconds, once
            await asyncio.sleep(0.01)
        print(server.base_url, flush=True)  # noqa: T201  this is what the caller waits for
        await task

    asyncio.run(serve())


if __name__ == "__main__":
    main()
