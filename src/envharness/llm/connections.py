"""Connections to one server: one call on each, and each call finds a free one at once, however many there are."""

from __future__ import annotations

import urllib.request
import zlib
from collections.abc import AsyncIterator, Callable
from functools import partial
from typing import cast
from urllib.parse import urlsplit

import httpx

MAX_BODY_BYTES = 8 << 20
"""The largest answer that is read; no model writes as much."""
_MAX_ZLIB_BITS = 47
"""Lets zlib find out by itself whether it is gzip or deflate."""


class UnreadableBody(Exception):
    """A server sends more than anything can be done with, or what was not asked for."""


class Connections(httpx.AsyncBaseTransport):
    """Keeps idle connections on a stack.

    The pool of httpx looks through all connections at every call, which at hundreds of them costs more than the call
    does. How many there are is bounded by whoever calls: as many as calls at the same time.
    """

    def __init__(self, base_url: str) -> None:
        self._make = partial(
            httpx.AsyncHTTPTransport,
            # One context for all: making one reads the system's certificates.
            verify=httpx.create_ssl_context(),
            limits=httpx.Limits(max_connections=1, max_keepalive_connections=1, keepalive_expiry=60.0),
            proxy=_proxy_for(base_url),
        )
        self._idle: list[httpx.AsyncHTTPTransport] = []
        self._all: set[httpx.AsyncHTTPTransport] = set()

    async def handle_async_request(self, request: httpx.Request) -> httpx.Response:
        """Send a request over a connection that is its own until the response has been read or closed."""
        connection = self._idle.pop() if self._idle else self._new()
        try:
            response = await connection.handle_async_request(request)
        except BaseException:
            self._idle.append(connection)
            raise
        stream = cast("httpx.AsyncByteStream", response.stream)
        encoding = response.headers.pop("content-encoding", "identity").strip().lower()
        response.stream = _Lent(stream, encoding, lambda: self._idle.append(connection))
        return response

    async def aclose(self) -> None:
        """Close all connections."""
        self._idle.clear()
        while self._all:
            await self._all.pop().aclose()

    def _new(self) -> httpx.AsyncHTTPTransport:
        connection = self._make()
        self._all.add(connection)
        return connection


class _Lent(httpx.AsyncByteStream):
    """A response's body, within bounds; gives its connection back when it is closed.

    It is unpacked here, where a server packs although it was asked not to: httpx would do so without a bound.
    """

    def __init__(self, body: httpx.AsyncByteStream, encoding: str, give_back: Callable[[], None]) -> None:
        self._body = body
        self._encoding = encoding
        self._give_back: Callable[[], None] | None = give_back

    async def __aiter__(self) -> AsyncIterator[bytes]:
        unpack = _unpacker(self._encoding)
        size = 0
        async for part in self._body:
            plain = unpack(part)
            size += len(plain)
            if size > MAX_BODY_BYTES:
                raise UnreadableBody(f"it is longer than {MAX_BODY_BYTES} bytes")
            yield plain

    async def aclose(self) -> None:
        try:
            await self._body.aclose()
        finally:
            if self._give_back is not None:
                self._give_back()
                self._give_back = None


def _unpacker(encoding: str) -> Callable[[bytes], bytes]:
    """Return what unpacks the next part of a body, up to a little more than the bound. Raises UnreadableBody."""
    if encoding in {"identity", ""}:
        return lambda part: part
    if encoding not in {"gzip", "deflate"}:
        raise UnreadableBody(f"it is packed as {encoding[:20]!r}, which was not asked for")
    decoder = zlib.decompressobj(_MAX_ZLIB_BITS)

    def unpack(part: bytes) -> bytes:
        try:
            return decoder.decompress(part, MAX_BODY_BYTES + 1)
        except zlib.error as error:
            raise UnreadableBody(f"it is packed as {encoding}, and cannot be unpacked: {error}") from None

    return unpack


def _proxy_for(base_url: str) -> str | None:
    """Return the proxy that the environment names for an address, which a transport of one's own has to look up."""
    parts = urlsplit(base_url)
    if not parts.hostname or urllib.request.proxy_bypass(parts.hostname):
        return None
    proxies = urllib.request.getproxies()
    proxy = proxies.get(parts.scheme) or proxies.get("all")
    # `host:port` is how many write it.
    return proxy if not proxy or "://" in proxy else f"http://{proxy}"
