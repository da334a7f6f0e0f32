"""What a model's server may reply: good answers, and each way to misbehave, as data."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace

from pydantic import JsonValue

from envharness.core.types import JsonDict


@dataclass(frozen=True)
class Reply:
    """One HTTP reply. `delay` is seconds before its first byte; `cut_after` closes the connection after so many."""

    status: int = 200
    body: bytes = b""
    headers: Mapping[str, str] = field(default_factory=dict[str, str])
    delay: float = 0.0
    hangs: bool = False
    cut_after: int | None = None

    def after(self, seconds: float) -> Reply:
        """Return the same reply with a slow first byte."""
        return replace(self, delay=seconds)


def answer(
    text: str | None = "ok",
    *,
    tool_calls: Sequence[tuple[str, str]] = (),
    finish_reason: str = "",
    prompt: int = 10,
    cached: int = 0,
    completion: int = 5,
    reasoning: int = 0,
    delay: float = 0.0,
) -> Reply:
    """A good answer. `tool_calls` are (name, raw arguments); the numbers are tokens."""
    message: JsonDict = {"role": "assistant", "content": text}
    if tool_calls:
        message["tool_calls"] = [
            {"id": f"call_{index}", "type": "function", "function": {"name": name, "arguments": arguments}}
            for index, (name, arguments) in enumerate(tool_calls)
        ]
    reason = finish_reason or ("tool_calls" if tool_calls else "stop")
    usage: JsonDict = {
        "prompt_tokens": prompt,
        "completion_tokens": completion,
        "total_tokens": prompt + completion,
        "prompt_tokens_details": {"cached_tokens": cached},
        "completion_tokens_details": {"reasoning_tokens": reasoning},
    }
    return Reply(body=_completion([{"index": 0, "message": message, "finish_reason": reason}], usage), delay=delay)


def error(status: int, message: str, *, code: str | None = None, headers: Mapping[str, str] | None = None) -> Reply:
    """An error in the protocol's own form."""
    body = {"error": {"message": message, "type": "error", "code": code}}
    return Reply(status=status, body=json.dumps(body).encode(), headers=headers or {})


def wrong_key(key: str = "") -> Reply:
    """401, quoting the key as some servers do."""
    return error(401, f"Incorrect API key provided: {key}", code="invalid_api_key")


def no_permission() -> Reply:
    """403."""
    return error(403, "You are not allowed to use this model")


def unknown_model() -> Reply:
    """404."""
    return error(404, "The model does not exist", code="model_not_found")


def rate_limited(retry_after: str | None = None) -> Reply:
    """429; `retry_after` is the header as it is sent: seconds, or an HTTP date."""
    headers = {} if retry_after is None else {"retry-after": retry_after}
    return error(429, "Rate limit reached", code="rate_limit_exceeded", headers=headers)


def overloaded(status: int = 500) -> Reply:
    """A failure of the server's own, with a page instead of JSON."""
    return Reply(status=status, body=b"<html>Internal Server Error</html>", headers={"content-type": "text/html"})


def hang() -> Reply:
    """No byte, ever."""
    return Reply(hangs=True)


def cut_body() -> Reply:
    """Half of an answer, then the connection closes."""
    whole = answer("this answer is never complete")
    return replace(whole, cut_after=len(whole.body) // 2)


def invalid_json() -> Reply:
    """A body of the right length that is no JSON."""
    return Reply(body=b'{"choices": [{"message": {"content": "hel')


def empty_choices() -> Reply:
    """An answer without an answer, which was paid for."""
    return Reply(body=_completion([], {"prompt_tokens": 7, "completion_tokens": 0}))


def wrong_tool_arguments(name: str) -> Reply:
    """A tool call whose arguments are no JSON."""
    return answer(None, tool_calls=[(name, '{"expression": "1 +')])


def two_tool_calls(first: tuple[str, str], second: tuple[str, str]) -> Reply:
    """Two tool calls in one answer."""
    return answer(None, tool_calls=[first, second])


def cut_by_length(text: str = "I was about to say") -> Reply:
    """An answer that the limit of tokens cut."""
    return answer(text, finish_reason="length")


def filtered() -> Reply:
    """An answer that the provider's filter withheld."""
    return answer("", finish_reason="content_filter")


def context_overflow() -> Reply:
    """400: the prompt is too long."""
    return error(400, "This model's maximum context length is 4096 tokens", code="context_length_exceeded")


def unicode_noise() -> Reply:
    """An answer with half surrogate pairs, control characters and bytes that are no UTF-8."""
    noisy = answer("caf\u00e9 \U0001f600 \\ud83d \u202e\u0000\u001b[31m")
    return replace(noisy, body=noisy.body.replace(b"\\\\ud83d", b"\\ud83d \xff\xfe"))


def error_inside_success() -> Reply:
    """200 with an error in it, as gateways send."""
    return Reply(body=b'{"error": {"message": "the provider behind me is down", "code": 502}}')


def _completion(choices: list[JsonValue], usage: JsonDict) -> bytes:
    body: JsonDict = {
        "id": "chatcmpl-1",
        "object": "chat.completion",
        "created": 0,
        "model": "fault-model",
        "choices": choices,
        "usage": usage,
    }
    return json.dumps(body).encode()
