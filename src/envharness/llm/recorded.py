"""A client that keeps real answers in a file and gives them again: the same call, the same answer, for ever."""

from __future__ import annotations

from pathlib import Path

from envharness.core.canonical import digest
from envharness.core.errors import ConfigError, MalformedAnswerError
from envharness.llm.chat import ChatAnswer, ChatClient, ChatRequest
from envharness.llm.recording import Entry, Recording


class RecordedClient:
    """Answers from a recording; what is not in it is asked of `source` and recorded, or is an error without one.

    A recording's key holds the whole request and its `key`, so that K samples of one prompt stay K answers. Usage and
    cost are those of the day of recording.
    """

    def __init__(self, path: str | Path, *, source: ChatClient | None = None, model: str = "") -> None:
        self._recording = Recording(Path(path), must_exist=source is None)
        self._source = source
        self._model = model

    async def complete(self, request: ChatRequest) -> ChatAnswer:
        """Return the recorded answer. Raises MalformedAnswerError, naming what was asked, where there is none."""
        key = request_key(request)
        entry = self._recording.find(key)
        if entry is None:
            entry = await self._record(key, request)
        if self._source is not None and self._model and entry.model != self._model:
            raise ConfigError(
                f"{self._recording.path} was recorded from {entry.model!r}, and record_from names {self._model!r}; "
                "use another file"
            )
        return entry.answer

    async def _record(self, key: str, request: ChatRequest) -> Entry:
        """Ask the source, and keep its answer before anyone sees it."""
        asked = describe(request)
        if self._source is None:
            raise MalformedAnswerError(
                f"{self._recording.path} holds no answer to {asked} (request {key[:12]}); "
                "record it with record_from, or restore what the prompt was made of"
            )
        answer = await self._source.complete(request)
        entry = Entry(
            request=key,
            role=request.role,
            task=request.task,
            sample=request.key,
            asked=asked,
            model=self._model or answer.model,
            answer=answer,
        )
        return self._recording.add(entry)

    async def close(self) -> None:
        """Close the source. Every answer is in the file already."""
        if self._source is not None:
            await self._source.close()


def request_key(request: ChatRequest) -> str:
    """Return the identity of a request: all that it says, and its `key`. 64 hexadecimal digits."""
    return digest(request.model_dump(mode="json"), 64)


def describe(request: ChatRequest) -> str:
    """Say in one short line which request it is: role, task, sample and the end of what was asked."""
    last = request.messages[-1].content if request.messages else ""
    end = " ".join(last.split())[-80:]
    task = f" on {request.task!r}" if request.task else ""
    sample = f", sample {request.key!r}" if request.key else ""
    return f"{request.role}{task}{sample}, {len(request.messages)} messages, the last ends with {end!r}"
