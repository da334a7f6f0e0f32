"""Model calls of the driver: asked on an event loop of their own, so that rollouts go on meanwhile."""

from __future__ import annotations

import asyncio
import queue
import threading
from collections.abc import Callable
from concurrent.futures import Future
from dataclasses import dataclass

from envharness.core.errors import (
    BudgetExhaustedError,
    ContentFilterError,
    ContextTooLongError,
    ProviderError,
    ProviderRefusedError,
)
from envharness.llm.chat import ChatAnswer, ChatClient
from envharness.llm.config import ModelConfig
from envharness.rigger.call_records import call_key
from envharness.rigger.requests import Answered, Call

CLOSE_SECONDS = 10.0

ClientMaker = Callable[[ModelConfig], ChatClient]


@dataclass(frozen=True)
class _Finished:
    key: str
    future: Future[ChatAnswer]


class ModelCalls:
    """Asks models at the same time, on one event loop in one thread, started with the first call.

    Use it from one thread; close it. `make_client` is called on the loop.
    """

    def __init__(self, make_client: ClientMaker) -> None:
        self._make_client = make_client
        self._clients: dict[str, ChatClient] = {}
        self._finished: queue.SimpleQueue[_Finished] = queue.SimpleQueue()
        self._loop: asyncio.AbstractEventLoop | None = None
        self._thread: threading.Thread | None = None
        self.in_flight = 0
        """Calls submitted whose answer was not handed out yet."""

    def submit(self, call: Call) -> None:
        """Ask; returns at once."""
        future = asyncio.run_coroutine_threadsafe(self._complete(call), self._running_loop())
        key = call_key(call)
        self.in_flight += 1
        future.add_done_callback(lambda done: self._finished.put(_Finished(key, done)))

    def next_result(self, timeout: float) -> tuple[str, Answered] | None:
        """Return the key and outcome of a call that is done, waiting up to `timeout` seconds; None: none was.

        Raises ProviderRefusedError and BudgetExhaustedError, which end the run, and whatever is a fault of ours.
        """
        try:
            finished = self._finished.get(timeout=timeout) if timeout > 0 else self._finished.get_nowait()
        except queue.Empty:
            return None
        self.in_flight -= 1
        try:
            return finished.key, Answered(finished.future.result())
        except (ProviderRefusedError, BudgetExhaustedError):
            raise
        except ContextTooLongError as error:
            return finished.key, Answered(failure="context_too_long", detail=str(error))
        except ContentFilterError as error:
            return finished.key, Answered(failure="content_filter", detail=str(error))
        except ProviderError as error:
            return finished.key, Answered(failure="provider", detail=f"{type(error).__name__}: {error}")

    def drain(self) -> list[tuple[str, Answered]]:
        """Return what has been answered by now. Further refusals in it are left out: one ends the run already."""
        found: list[tuple[str, Answered]] = []
        while not self._finished.empty():
            try:
                found += [result] if (result := self.next_result(0.0)) else []
            except (ProviderRefusedError, BudgetExhaustedError):
                continue
        return found

    def close(self) -> None:
        """Cancel what is in flight, close the clients, end the thread. Idempotent."""
        loop, thread = self._loop, self._thread
        if loop is None or thread is None:
            return
        self._loop = self._thread = None
        asyncio.run_coroutine_threadsafe(self._shut_down(), loop).result(CLOSE_SECONDS)
        loop.call_soon_threadsafe(loop.stop)
        thread.join(CLOSE_SECONDS)
        loop.close()

    async def _complete(self, call: Call) -> ChatAnswer:
        name = call.model.model_dump_json()
        if name not in self._clients:
            self._clients[name] = self._make_client(call.model)
        return await self._clients[name].complete(call.request)

    async def _shut_down(self) -> None:
        mine = asyncio.current_task()
        others = [task for task in asyncio.all_tasks() if task is not mine]
        for task in others:
            task.cancel()
        await asyncio.gather(*others, return_exceptions=True)
        for client in self._clients.values():
            await client.close()
        await asyncio.get_running_loop().shutdown_asyncgens()

    def _running_loop(self) -> asyncio.AbstractEventLoop:
        if self._loop is None:
            self._loop = asyncio.new_event_loop()
            self._thread = threading.Thread(target=self._loop.run_forever, name="model-calls", daemon=True)
            self._thread.start()
        return self._loop
