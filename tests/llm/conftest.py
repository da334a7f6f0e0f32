"""What tests of clients share: a request, a configuration, and one answer of a client on a loop of its own."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any

import pytest

from envharness.llm.chat import ChatAnswer, ChatRequest, Message
from envharness.llm.config import Endpoint, ModelConfig
from envharness.llm.make import client_for
from envharness.testing.fault_server import FaultServer

Ask = Callable[..., ChatAnswer]


@pytest.fixture
def ask() -> Ask:
    """Ask a server once, with a configuration of short times."""

    def asking(server: FaultServer, request: ChatRequest | None = None, **changes: Any) -> ChatAnswer:
        config = ModelConfig(
            model="m", endpoints=(Endpoint(base_url=server.base_url),), timeout_seconds=1.0, retries=2
        ).model_copy(update=changes)

        async def once() -> ChatAnswer:
            return await client_for(config).complete(request or ChatRequest(messages=(Message(role="user"),)))

        return asyncio.run(once())

    return asking


@pytest.fixture
def quick_backoff(monkeypatch: pytest.MonkeyPatch) -> None:
    """Wait a hundredth of the usual time between attempts."""
    monkeypatch.setattr("envharness.llm.retry.FIRST_SECONDS", 0.005)
