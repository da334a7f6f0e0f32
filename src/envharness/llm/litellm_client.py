"""The client of `litellm`'s model strings (extra `litellm`), for what no OpenAI-compatible endpoint serves."""

from __future__ import annotations

import asyncio
import os
from typing import TYPE_CHECKING, Any

import orjson

from envharness.core.errors import ConfigError
from envharness.llm.chat import ChatAnswer, ChatRequest
from envharness.llm.config import ANYWHERE, ModelConfig
from envharness.llm.failures import AttemptFailed, from_status, timed_out, unreachable, without_key
from envharness.llm.remote import RemoteClient, key_of
from envharness.llm.wire import from_wire, to_wire

if TYPE_CHECKING:
    from types import ModuleType


class LitellmClient(RemoteClient):
    """Asks by `model` (such as `bedrock/...`). Endpoints are optional; without one, litellm finds keys by itself."""

    def __init__(self, config: ModelConfig, *, seat: tuple[int, int] = (0, 1)) -> None:
        super().__init__(config, config.endpoints or (ANYWHERE,), seat=seat)
        self._keys = [key_of(endpoint) for endpoint in config.endpoints]
        self._litellm = _load()

    async def ask(self, endpoint: int, request: ChatRequest) -> ChatAnswer:
        """Make one attempt."""
        where = self.name_of(endpoint)
        key = self._keys[endpoint] if self._keys else None
        place: dict[str, Any] = {}
        if self.config.endpoints:
            place = {"api_base": self.config.endpoints[endpoint].base_url, "api_key": key}
        try:
            answer = await self._litellm.acompletion(**to_wire(request, self.config), **place, num_retries=0)
            body = orjson.dumps(answer.model_dump(mode="json"))
        except asyncio.CancelledError:
            raise
        except Exception as error:  # noqa: BLE001  litellm raises what its providers raise
            raise _failure(where, error, key, self.config.timeout_seconds) from None
        return from_wire(where, without_key(body, key), self.config.prices)

    async def disconnect(self) -> None:
        """Close the clients that litellm keeps for the running loop."""
        await self._litellm.close_litellm_async_clients()

    def name_of(self, endpoint: int) -> str:
        """Return the model's string, and the address where one is configured."""
        if not self.config.endpoints:
            return self.config.model
        return f"{self.config.model} at {self.config.endpoints[endpoint].base_url}"


def _load() -> ModuleType:
    # Its import would fetch a price list over the network otherwise; prices come from the configuration here.
    os.environ.setdefault("LITELLM_LOCAL_MODEL_COST_MAP", "True")
    try:
        import litellm  # pyright: ignore[reportMissingImports]  an extra that few installs have
    except ImportError as error:
        raise ConfigError("client 'litellm' needs the package: pip install 'envharness[litellm]'") from error
    module: ModuleType = litellm
    module.suppress_debug_info = True  # pyright: ignore[reportAttributeAccessIssue]  it prints advertisements
    module.telemetry = False  # pyright: ignore[reportAttributeAccessIssue]  as its name says
    return module


def _failure(where: str, error: Exception, key: str | None, seconds: float) -> AttemptFailed:
    """Return what an exception of litellm means. They carry the HTTP status that the provider gave, or stand for."""
    said = without_key(str(error).encode(), key)
    status = getattr(error, "status_code", None)
    kind = type(error).__name__
    if kind == "Timeout":
        return timed_out(where, seconds)
    if kind == "APIConnectionError" or not isinstance(status, int):
        return unreachable(where, f"{kind} {said.decode(errors='replace')}"[:300])
    response = getattr(error, "response", None)
    return from_status(where, status, dict(getattr(response, "headers", None) or {}), said)
