"""What all clients over a network share: places at endpoints, attempts, back-off, and the bill of failed attempts."""

from __future__ import annotations

import asyncio
import math
import os
import random
from abc import ABC, abstractmethod
from collections.abc import Sequence

from envharness.core.errors import MalformedAnswerError, ProviderRefusedError
from envharness.core.seeding import stream
from envharness.core.usage import Usage
from envharness.llm.chat import ChatAnswer, ChatRequest
from envharness.llm.config import Endpoint, ModelConfig
from envharness.llm.endpoints import EndpointQueue
from envharness.llm.failures import AttemptFailed, timed_out
from envharness.llm.retry import LONGEST_WAIT_SECONDS, backoff
from envharness.llm.wire import cost_of

_EXPECTED_COMPLETION = 256
"""Tokens an answer is taken to have before it is there, where no limit says better."""
_CHARACTERS_A_TOKEN = 4


class RemoteClient(ABC):
    """Asks endpoints over a network. For one event loop."""

    def __init__(self, config: ModelConfig, endpoints: Sequence[Endpoint], *, seat: tuple[int, int] = (0, 1)) -> None:
        self.config = config
        self._queue = EndpointQueue(endpoints, seat=seat)

    @abstractmethod
    async def ask(self, endpoint: int, request: ChatRequest) -> ChatAnswer:
        """Make one attempt at the endpoint of that index. Raises AttemptFailed; time is kept by the caller."""

    @abstractmethod
    async def disconnect(self) -> None:
        """Release connections."""

    @abstractmethod
    def name_of(self, endpoint: int) -> str:
        """Return how messages call the endpoint."""

    async def complete(self, request: ChatRequest) -> ChatAnswer:
        """Answer one request, after at most `retries` further attempts. Raises a ProviderError."""
        spent = Usage()
        tokens = _estimated_tokens(request, self.config)
        avoid: int | None = None
        for failures in range(1, self.config.retries + 2):
            async with self._queue.place(tokens, avoid=avoid) as place:
                try:
                    answer = _counted(await self._attempt(place.endpoint, request), request, self.config)
                    place.tokens_used = answer.usage.prompt + answer.usage.completion
                    self._queue.succeeded(place.endpoint)
                except AttemptFailed as failed:
                    failure, avoid = failed, place.endpoint
                    spent += failed.usage
                else:
                    return answer if not spent.calls else answer.model_copy(update={"usage": answer.usage + spent})
            if not failure.again or failures > self.config.retries or self._too_long(failure, place.endpoint):
                break
            jitter = stream(request.seed or 0, "retry", request.role, request.task, request.key, failures)
            await self._wait(failure, failures, jitter, place.endpoint)
        raise _final(failure, failures, spent)  # pyright: ignore[reportPossiblyUnboundVariable]  the range is never empty

    async def close(self) -> None:
        """Release connections. Idempotent."""
        self._queue.close()
        await self.disconnect()

    async def _attempt(self, endpoint: int, request: ChatRequest) -> ChatAnswer:
        try:
            async with asyncio.timeout(self.config.timeout_seconds):
                return await self.ask(endpoint, request)
        except TimeoutError:
            raise timed_out(self.name_of(endpoint), self.config.timeout_seconds) from None

    async def _wait(self, failure: AttemptFailed, failures: int, jitter: random.Random, endpoint: int) -> None:
        """Wait before the next attempt; where there is another endpoint, it is this one that everybody leaves alone."""
        if failure.pause is None:
            if len(self._queue) == 1 or isinstance(failure.error, MalformedAnswerError):
                await asyncio.sleep(backoff(failures, jitter))
            else:
                # By its own failures and not the call's: a dead endpoint is soon hardly tried any more, and is not
                # taken for a free one while the others are busy.
                self._queue.pause(endpoint, backoff(self._queue.failed(endpoint), jitter))
            return
        seconds = backoff(failures, jitter)
        # The server named a time: nobody goes there before it, while other endpoints may take this call at once. A time
        # that is over already, by a clock that goes wrong, does not replace the back-off; and one without end does not
        # shut an endpoint for ever.
        pause = min(max(failure.pause + 0.1 * seconds, seconds), LONGEST_WAIT_SECONDS)
        self._queue.pause(endpoint, pause)
        if len(self._queue) == 1:
            await asyncio.sleep(pause)

    def _too_long(self, failure: AttemptFailed, endpoint: int) -> bool:
        """Whether the server asks for a longer pause than is worth waiting for, and no other would take the call."""
        if failure.pause is None or failure.pause <= LONGEST_WAIT_SECONDS:
            return False
        return not self._queue.open_beside(endpoint)


def key_of(endpoint: Endpoint) -> str | None:
    """Return the key that an endpoint's reference stands for, or None where it wants none.

    Raises ProviderRefusedError, naming the variable and never its value, where it is unset or cannot be sent.
    """
    if endpoint.api_key is None:
        return None
    name = endpoint.api_key.removeprefix("env:")
    key = os.environ.get(name, "").strip()
    if not key:
        raise ProviderRefusedError(f"{endpoint.base_url}: the environment variable {name}, its api_key, is not set")
    if not key.isascii() or not key.isprintable():
        raise ProviderRefusedError(f"{endpoint.base_url}: the variable {name} holds characters that no header can hold")
    return key


def _final(failure: AttemptFailed, attempts: int, spent: Usage) -> Exception:
    error = failure.error
    if failure.pause is not None and failure.pause > LONGEST_WAIT_SECONDS:
        error = type(error)(f"{error} (it asks to be left alone for {failure.pause:.0f} s, which is not waited for)")
    if attempts > 1:
        error = type(error)(f"{error} (attempt {attempts} of {attempts})")
    error.usage = spent
    return error


def _counted(answer: ChatAnswer, request: ChatRequest, config: ModelConfig) -> ChatAnswer:
    """Return the answer with its tokens estimated where the endpoint counts none, so that a budget still ends."""
    usage = answer.usage
    if usage.prompt or usage.completion:
        return answer
    written = len(answer.text) + len(answer.reasoning) + sum(len(call.arguments) for call in answer.tool_calls)
    prompt, completion = math.ceil(_prompt_tokens(request)), math.ceil(written / _CHARACTERS_A_TOKEN)
    cost = cost_of(config.prices, prompt=prompt, cached=0, completion=completion)
    estimated = usage.model_copy(update={"prompt": prompt, "completion": completion, "cost": cost})
    return answer.model_copy(update={"usage": estimated})


def _estimated_tokens(request: ChatRequest, config: ModelConfig) -> float:
    limit = request.sampling.max_tokens or config.sampling.max_tokens
    return _prompt_tokens(request) + min(limit or _EXPECTED_COMPLETION, _EXPECTED_COMPLETION)


def _prompt_tokens(request: ChatRequest) -> float:
    characters = sum(len(message.content) for message in request.messages)
    return characters / _CHARACTERS_A_TOKEN
