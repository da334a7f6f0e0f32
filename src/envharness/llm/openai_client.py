"""The client of OpenAI-compatible endpoints, on the `openai` package (extra `llm`)."""

from __future__ import annotations

from typing import TYPE_CHECKING

from envharness.core.errors import ConfigError
from envharness.llm.chat import ChatAnswer, ChatRequest
from envharness.llm.config import Endpoint, ModelConfig
from envharness.llm.failures import from_status, malformed, timed_out, unreachable, without_key
from envharness.llm.remote import RemoteClient, key_of
from envharness.llm.wire import from_wire, to_wire

if TYPE_CHECKING:
    from openai import AsyncOpenAI

CONNECT_SECONDS = 10.0
"""What it may take to reach a server at all, and at most half of the limit of an attempt.

A handshake that hangs has to end by this limit: one that is cancelled leaves its socket open."""


class OpenAIClient(RemoteClient):
    """Asks the endpoints of a configuration. Raises ConfigError where the `openai` package is not installed."""

    def __init__(self, config: ModelConfig, *, shares: int = 1) -> None:
        super().__init__(config, config.endpoints, shares=shares)
        self._keys = [key_of(endpoint) for endpoint in config.endpoints]
        self._connections = [
            _connect(endpoint, key, config.timeout_seconds)
            for endpoint, key in zip(config.endpoints, self._keys, strict=True)
        ]

    async def ask(self, endpoint: int, request: ChatRequest) -> ChatAnswer:
        """Make one attempt."""
        import httpx
        import openai

        from envharness.llm.connections import UnreadableBody

        where = self.name_of(endpoint)
        try:
            # The body is written and read by this package, which costs half of what the SDK's own models do, and
            # shows an answer that breaks the protocol for what it is.
            response = await self._connections[endpoint].post(
                "/chat/completions", body=to_wire(request, self.config), cast_to=httpx.Response
            )
            body = response.content
        except openai.APIStatusError as error:
            said = without_key(error.response.content, self._keys[endpoint])
            raise from_status(where, error.status_code, error.response.headers, said) from None
        except openai.APITimeoutError:
            raise timed_out(where, self.config.timeout_seconds) from None
        except (openai.APIConnectionError, httpx.HTTPError, httpx.InvalidURL) as error:
            cause = error.__cause__ or error
            if isinstance(cause, UnreadableBody):
                raise malformed(where, str(cause)) from None
            # What a server sends in place of HTTP is quoted in the message, and may quote the request in turn.
            why = without_key(f"{type(cause).__name__} {cause}".strip().encode(errors="replace"), self._keys[endpoint])
            raise unreachable(where, why.decode()) from None
        return from_wire(where, without_key(body, self._keys[endpoint]), self.config.prices)

    async def disconnect(self) -> None:
        """Close all connections."""
        for connection in self._connections:
            await connection.close()

    def name_of(self, endpoint: int) -> str:
        """Return model and address."""
        return f"{self.config.model} at {self.config.endpoints[endpoint].base_url}"


def _connect(endpoint: Endpoint, key: str | None, timeout_seconds: float) -> AsyncOpenAI:
    try:
        import httpx
        from openai import AsyncOpenAI, DefaultAsyncHttpxClient

        from envharness.llm.connections import Connections
    except ImportError as error:
        raise ConfigError("client 'openai' needs the package: pip install 'envharness[llm]'") from error
    connection = AsyncOpenAI(
        base_url=endpoint.base_url,
        api_key=key or "none",
        max_retries=0,
        http_client=DefaultAsyncHttpxClient(
            timeout=httpx.Timeout(timeout_seconds, connect=min(CONNECT_SECONDS, timeout_seconds / 2)),
            transport=Connections(endpoint.base_url),
        ),
    )
    # The SDK takes these from the environment, and would send them to whatever server is asked.
    connection.organization = connection.project = connection.admin_api_key = None
    # And an answer is short: packed, it would save nothing, while a server could pack what no memory holds.
    connection._custom_headers = {"Accept-Encoding": "identity"}  # noqa: SLF001  OPENAI_CUSTOM_HEADERS ends here
    return connection
