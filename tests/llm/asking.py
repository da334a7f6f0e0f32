"""A policy that asks a model and does what comes to hand: for tests of what calls cost a run."""

from __future__ import annotations

from envharness.core.policy import Decision, Turn
from envharness.core.types import Action
from envharness.llm.chat import ChatRequest, Message
from envharness.llm.config import Endpoint, ModelConfig
from envharness.llm.make import client_for


class Asking:
    """Asks once a turn."""

    def __init__(self, *, seed: int, url: str, api_key: str | None = None, retries: int = 0) -> None:
        self._seed = seed
        self._model = ModelConfig(
            model="m", endpoints=(Endpoint(base_url=url, api_key=api_key),), retries=retries, timeout_seconds=5
        )

    async def act(self, turn: Turn) -> Decision:
        """Ask, then reset the numbers."""
        request = ChatRequest(
            messages=(Message(role="user", content=turn.observation.text),), key=f"{self._seed}/{turn.step}"
        )
        answer = await client_for(self._model).complete(request)
        return Decision(action=Action(name="reset_numbers"), text=answer.text, usage=answer.usage)

    async def close(self) -> None:
        """Nothing is its own."""
