"""The client of OpenAI-compatible endpoints (extra `llm`): the chat protocol over aiohttp."""

from __future__ import annotations

import importlib.util
import json
import urllib.request
from typing import TYPE_CHECKING
from urllib.parse import urlsplit

import orjson

from envharness.core.errors import ConfigError
from envharness.core.types import JsonDict
from envharness.llm.chat import ChatAnswer, ChatRequest
from envharness.llm.config import ModelConfig
from envharness.llm.failures import from_status, malformed, timed_out, unreachable, without_key
from envharness.llm.remote import RemoteClient, key_of
from envharness.llm.wire import from_wire, to_wire

if TYPE_CHECKING:
    import aiohttp

CONNECT_SECONDS = 10.0
"""What it may take to reach a server at all, and at most half of the limit of an attempt."""
LARGEST_ANSWER = 8 << 20
"""Bytes of one answer, unpacked; no model writes as much."""
_IDLE_SECONDS = 60.0
"""How long a connection is kept for the next call."""
_FIRST_FAILURE = 300
"""The lowest HTTP status that is no answer; a redirect is none."""


class OpenAIClient(RemoteClient):
    """Asks the endpoints of a configuration. Raises ConfigError where `aiohttp` is not installed."""

    def __init__(self, config: ModelConfig, *, seat: tuple[int, int] = (0, 1)) -> None:
        super().__init__(config, config.endpoints, seat=seat)
        if importlib.util.find_spec("aiohttp") is None:
            raise ConfigError("client 'openai' needs the package: pip install 'envharness[llm]'")
        self._keys = [key_of(endpoint) for endpoint in config.endpoints]
        self._headers = [_headers(key) for key in self._keys]
        self._addresses = [f"{endpoint.base_url.rstrip('/')}/chat/completions" for endpoint in config.endpoints]
        self._proxies = [_proxy_for(endpoint.base_url) for endpoint in config.endpoints]
        self._session: aiohttp.ClientSession | None = None

    async def ask(self, endpoint: int, request: ChatRequest) -> ChatAnswer:
        """Make one attempt."""
        import aiohttp

        where, key = self.name_of(endpoint), self._keys[endpoint]
        try:
            async with self._connected().post(
                self._addresses[endpoint],
                data=_written(to_wire(request, self.config)),
                headers=self._headers[endpoint],
                proxy=self._proxies[endpoint],
                # A redirect would take the key and the prompt to a server that nobody named.
                allow_redirects=False,
            ) as response:
                body = without_key(await _read(response, where), key)
        except aiohttp.ServerTimeoutError:
            raise timed_out(where, min(CONNECT_SECONDS, self.config.timeout_seconds)) from None
        except (aiohttp.ClientError, OSError, UnicodeError) as error:  # UnicodeError: a host that no name can be
            if "content-encoding" in str(error):  # of two classes, by where it is noticed
                raise malformed(where, "it is packed, and cannot be unpacked") from None
            raise unreachable(where, without_key(_described(error).encode(errors="replace"), key).decode()) from None
        if response.status >= _FIRST_FAILURE:
            headers = {name.lower(): value for name, value in response.headers.items()}
            raise from_status(where, response.status, headers, body)
        return from_wire(where, body, self.config.prices)

    async def disconnect(self) -> None:
        """Close all connections."""
        if self._session is not None:
            await self._session.close()
            self._session = None

    def name_of(self, endpoint: int) -> str:
        """Return model and address."""
        return f"{self.config.model} at {self.config.endpoints[endpoint].base_url}"

    def _connected(self) -> aiohttp.ClientSession:
        """Return the session, which must be made on the loop that uses it."""
        if self._session is None:
            import aiohttp

            connect = min(CONNECT_SECONDS, self.config.timeout_seconds)
            self._session = aiohttp.ClientSession(
                # How many there are is bounded by the endpoints' places, and an attempt's time by whoever asks.
                connector=aiohttp.TCPConnector(limit=0, keepalive_timeout=_IDLE_SECONDS),
                timeout=aiohttp.ClientTimeout(total=None, sock_connect=connect),
                cookie_jar=aiohttp.DummyCookieJar(),
            )
        return self._session


def _headers(key: str | None) -> dict[str, str]:
    headers = {"Content-Type": "application/json", "Accept": "application/json", "Accept-Encoding": "identity"}
    return {**headers, "Authorization": f"Bearer {key}"} if key else headers


def _written(body: JsonDict) -> bytes:
    try:
        return orjson.dumps(body)
    except TypeError:  # half a surrogate pair, or an integer of more than 64 bits, which a schema may hold
        return json.dumps(body).encode()


async def _read(response: aiohttp.ClientResponse, where: str) -> bytes:
    """Read a body that may be anything, compressed to nothing included."""
    body = bytearray()
    async for part in response.content.iter_any():
        body += part
        if len(body) > LARGEST_ANSWER:
            raise malformed(where, f"it is longer than {LARGEST_ANSWER} bytes")
    return bytes(body)


def _described(error: Exception) -> str:
    return " ".join(f"{type(error).__name__} {error}".split())


def _proxy_for(base_url: str) -> str | None:
    """Return the proxy that the environment names for an address. Raises ConfigError for one that is not HTTP's.

    Left to itself, aiohttp would also read a netrc file, and send what it finds there.
    """
    parts = urlsplit(base_url)
    if not parts.hostname or urllib.request.proxy_bypass(parts.hostname):
        return None
    proxies = urllib.request.getproxies()
    proxy = proxies.get(parts.scheme) or proxies.get("all")
    if not proxy or "://" not in proxy:  # `host:port` is how many write it
        return f"http://{proxy}" if proxy else None
    if (kind := urlsplit(proxy).scheme) not in {"http", "https"}:
        raise ConfigError(
            f"{base_url}: the environment names a proxy of kind {kind!r}; only http and https can be used"
        )
    return proxy
