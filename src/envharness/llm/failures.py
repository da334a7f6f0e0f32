"""What went wrong at a provider, as this package's errors: which class, whether to try again, and never the key."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from functools import lru_cache
from typing import Any, cast

from envharness.core.errors import (
    ContentFilterError,
    ContextTooLongError,
    MalformedAnswerError,
    OverloadedError,
    ProviderError,
    ProviderRefusedError,
    ProviderTimeoutError,
    RateLimitError,
)
from envharness.core.usage import Usage
from envharness.llm.chat import whole
from envharness.llm.retry import retry_after

_MESSAGE_LENGTH = 300
_SHORTEST_KEY = 8
"""Characters. Servers that want no key are often given `x` or `EMPTY`, which writing over would take out of answers."""
_READ_BYTES = 20_000
"""Bytes of an error's body in which its meaning is looked for."""
_CONTEXT = (
    "context length",
    "context_length",
    "context window",
    "context size",
    "maximum context",
    "prompt is too long",
    "too many tokens",
    "input token count",
    "exceed_context",
    "reduce the length",
)
_FILTER = ("content_filter", "content filter", "content_policy", "content management policy", "safety system")
_REFUSED = (
    "api key not valid",
    "api_key_invalid",
    "invalid api key",
    "incorrect api key",
    "insufficient_quota",
    "billing_hard_limit",
    "credit balance is too low",
)
"""What some providers say under a number that means something else."""
_PASSING = frozenset({RateLimitError, ProviderTimeoutError, OverloadedError})
"""What another attempt may find gone."""


class AttemptFailed(Exception):
    """One attempt at a call came to nothing.

    `error` is what the caller gets where no other attempt follows; `again` says whether one may help, `pause` for how
    many seconds the server asked for peace (None: it did not say); `usage` what the attempt cost all the same.
    """

    def __init__(
        self, error: ProviderError, *, again: bool, pause: float | None = None, usage: Usage | None = None
    ) -> None:
        super().__init__(str(error))
        self.error = error
        self.again = again
        self.pause = pause
        self.usage = usage or Usage()


def timed_out(where: str, seconds: float) -> AttemptFailed:
    """No complete answer came within the limit of an attempt."""
    return AttemptFailed(ProviderTimeoutError(f"{where}: no complete answer within {seconds:g} s"), again=True)


def unreachable(where: str, why: str) -> AttemptFailed:
    """The connection could not be made, or broke before the answer was complete."""
    return AttemptFailed(OverloadedError(f"{where}: the connection failed: {why}"), again=True)


def malformed(where: str, why: str, usage: Usage | None = None) -> AttemptFailed:
    """The answer breaks the protocol; asking again may bring a better one."""
    return AttemptFailed(MalformedAnswerError(f"{where}: the answer is malformed: {why}"), again=True, usage=usage)


def filtered(where: str, usage: Usage | None = None) -> AttemptFailed:
    """The provider's filter withheld the answer."""
    error = ContentFilterError(f"{where}: the provider's content filter withheld the answer")
    return AttemptFailed(error, again=False, usage=usage)


def from_status(where: str, status: int, headers: Mapping[str, str], body: bytes) -> AttemptFailed:
    """Return what an HTTP answer other than 2xx means. `headers` have lower-case names; the body holds no key."""
    said = describe_body(body)
    text = f"{where}: HTTP {status}{f': {said}' if said else ''}"
    kind, hint = _meaning(status, body[:_READ_BYTES].decode(errors="replace").lower())
    error = kind(f"{text} ({hint})" if hint else text)
    return AttemptFailed(error, again=kind in _PASSING, pause=retry_after(headers) if kind in _PASSING else None)


def _meaning(status: int, said: str) -> tuple[type[ProviderError], str]:
    """Return the class of error, and what to do about it. What the body says goes before what the number says."""
    signs: list[tuple[bool, type[ProviderError], str]] = [
        (status < 400, ProviderRefusedError, "redirects are not followed: base_url must be where it leads"),  # noqa: PLR2004
        (status == 404, ProviderRefusedError, "check base_url and model"),  # noqa: PLR2004  the number is the name
        (status in {401, 402, 403} or _has(said, _REFUSED), ProviderRefusedError, "check api_key and the account"),
        # Some servers report a prompt that is too long as their own fault.
        (status == 413 or (status not in {408, 429} and _has(said, _CONTEXT)), ContextTooLongError, ""),  # noqa: PLR2004
        (status == 429, RateLimitError, ""),  # noqa: PLR2004
        (status in {408, 504}, ProviderTimeoutError, ""),
        (status >= 500 or status in {409, 425}, OverloadedError, ""),  # noqa: PLR2004
        (_has(said, _FILTER), ContentFilterError, ""),
        (True, ProviderError, "does it take the model's sampling, max_tokens_field, send_seed and extra_body?"),
    ]
    return next((kind, hint) for found, kind, hint in signs if found)


def about_the_prompt(message: str) -> bool:
    """Whether an error's message puts it down to this prompt (too long, filtered), so that others may be answered."""
    said = message.lower()
    return "http 413" in said or _has(said, (*_CONTEXT, *_FILTER))


def describe_body(body: bytes) -> str:
    """Return the message of an error body in one short line."""
    try:
        data = json.loads(body)
        for name in ("error", "message", "detail"):
            if isinstance(data, dict) and name in data:
                data = cast("dict[str, Any]", data)[name]
                if not isinstance(data, dict):
                    break
        return _brief(data if isinstance(data, str) else json.dumps(data))
    except (ValueError, RecursionError):
        return _brief(body[:_READ_BYTES].decode(errors="replace"))


def without_key(body: bytes, key: str | None) -> bytes:
    """Return `body` with the key written over, as it is or escaped as in JSON: some servers quote what they refuse."""
    if not key or len(key) < _SHORTEST_KEY:
        return body
    return _spellings(key).sub(b"[key]", body) if b"\\" in body else body.replace(key.encode(), b"[key]")


@lru_cache(maxsize=64)
def _spellings(key: str) -> re.Pattern[bytes]:
    """Match a key, each of its characters as it is, behind a backslash, or by its number."""
    parts = [rf"(?:\\?{re.escape(sign)}|(?i:\\u{ord(sign):04x}))" for sign in key]
    return re.compile("".join(parts).encode())


def _brief(text: str) -> str:
    line = " ".join(whole(text[:_READ_BYTES]).split())
    return line if len(line) <= _MESSAGE_LENGTH else f"{line[: _MESSAGE_LENGTH - 3]}..."


def _has(text: str, signs: tuple[str, ...]) -> bool:
    return any(sign in text for sign in signs)
