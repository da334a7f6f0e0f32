"""Clients from configurations: one for each configuration and event loop, closed with the loop."""

from __future__ import annotations

import asyncio
import importlib.util
import threading
from collections.abc import AsyncGenerator
from pathlib import Path

from envharness.core.errors import ConfigError, ProviderRefusedError
from envharness.llm.chat import ChatClient
from envharness.llm.config import ModelConfig
from envharness.llm.recording import Recording
from envharness.llm.share import seat

_Kept = tuple[ChatClient, AsyncGenerator[None]]
_lock = threading.Lock()
_clients: dict[asyncio.AbstractEventLoop, dict[str, _Kept]] = {}


def client_for(config: ModelConfig) -> ChatClient:
    """Return the client of `config` on the running event loop: the same one for every caller there.

    So all episodes of a process share connections and limits. It is closed when the loop is shut down (by
    `asyncio.run` or `asyncio.Runner`); closing it earlier ends it for everyone. Raises RuntimeError outside a loop,
    ConfigError where the configuration lacks something, ProviderRefusedError where its key is not there.
    """
    loop = asyncio.get_running_loop()
    identity = config.model_dump_json()
    with _lock:
        for other in [other for other in _clients if other.is_closed()]:
            del _clients[other]
        kept = _clients.get(loop, {}).get(identity)
    if kept is not None:
        return kept[0]
    client = make_client(config)
    keeper = _close_with_loop(loop, identity, client)
    _begin(keeper)
    with _lock:
        _clients.setdefault(loop, {})[identity] = (client, keeper)
    return client


def make_client(config: ModelConfig) -> ChatClient:
    """Make a client that is the caller's to close. Raises ConfigError or ProviderRefusedError."""
    _require_complete(config)
    if config.client == "openai":
        from envharness.llm.openai_client import OpenAIClient

        return OpenAIClient(config, seat=seat())
    if config.client == "litellm":
        from envharness.llm.litellm_client import LitellmClient

        return LitellmClient(config, seat=seat())
    if config.client == "scripted":
        from envharness.llm.scripted import ScriptedClient

        return ScriptedClient(config.answers)
    from envharness.llm.recorded import RecordedClient

    source = None if config.record_from is None else make_client(config.record_from)
    return RecordedClient(_recording_of(config), source=source, model=_model_of(config))


def require_usable(config: ModelConfig) -> None:
    """Raise ConfigError where no client can be made of `config`, before anything is paid: for preflights."""
    from envharness.llm.remote import key_of

    _require_complete(config)
    package = {"openai": "aiohttp", "litellm": "litellm"}.get(config.client)
    if package is not None and importlib.util.find_spec(package) is None:
        extra = "llm" if config.client == "openai" else "litellm"
        raise ConfigError(f"client {config.client!r} needs the package: pip install 'envharness[{extra}]'")
    try:
        for endpoint in config.endpoints:
            key_of(endpoint)
    except ProviderRefusedError as error:
        raise ConfigError(str(error)) from error
    if config.record_from is not None:
        require_usable(config.record_from)
    elif config.client == "recorded":
        Recording(Path(_recording_of(config)), must_exist=True)


def _require_complete(config: ModelConfig) -> None:
    if config.client in {"openai", "litellm"} and not config.model:
        raise ConfigError(f"model: client {config.client!r} needs the name of a model")
    if config.client == "openai" and not config.endpoints:
        raise ConfigError("endpoints: client 'openai' needs at least one, such as base_url: http://127.0.0.1:8080/v1")
    if config.client == "scripted" and not config.answers:
        raise ConfigError("answers: client 'scripted' needs at least one")
    if config.client == "recorded" and not config.recording:
        raise ConfigError("recording: client 'recorded' needs the file of recorded answers")


def _recording_of(config: ModelConfig) -> str:
    return config.recording or ""


def _model_of(config: ModelConfig) -> str:
    return config.record_from.model if config.record_from is not None else config.model


async def _close_with_loop(loop: asyncio.AbstractEventLoop, identity: str, client: ChatClient) -> AsyncGenerator[None]:
    """Wait, as a suspended generator, for the loop to shut its generators down: the one hook a loop's end offers."""
    try:
        yield
    finally:
        with _lock:
            _clients.get(loop, {}).pop(identity, None)
        await client.close()


def _begin(keeper: AsyncGenerator[None]) -> None:
    """Run the generator to its `yield`; it awaits nothing before, so no event loop need turn."""
    try:
        keeper.__anext__().send(None)
    except StopIteration:
        return
    raise RuntimeError("the generator awaited something before its first yield")
