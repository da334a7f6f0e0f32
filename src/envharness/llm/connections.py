"""Connections to one server: one call on each, and each call finds a free one at once, however many there are."""

from __future__ import annotations

import urllib.request
from collections.abc import AsyncIterator, Callable
from functools import partial
from typing import cast
from urllib.parse import urlsplit

import httpx


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
        response.stream = _Lent(stream, lambda: self._idle.append(connection))
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
    """A response's body; gives its connection back when it is closed."""

    def __init__(self, body: httpx.AsyncByteStream, give_back: Callable[[], None]) -> None:
        self._body = body
        self._give_back: Callable[[], None] | None = give_back

    async def __aiter__(self) -> AsyncIterator[bytes]:
        async for part in self._body:
            yield part

    async def aclose(self) -> None:
        try:
            await self._body.aclose()
        finally:
            if self._give_back is not None:
                self._give_back()
                self._give_back = None


def _proxy_for(base_url: str) -> str | None:
    """Return the proxy that the environment names for an address, which a transport of one's own has to look up."""
    parts = urlsplit(base_url)
    if not parts.hostname or urllib.request.proxy_bypass(parts.hostname):
        return None
    proxies = urllib.request.getproxies()
    return proxies.get(parts.scheme) or proxies.get("all")
