"""A model as data: which client, where it is reached, how it samples, what it costs. Keys only by reference."""

from __future__ import annotations

import re
from typing import Annotated, Literal
from urllib.parse import urlsplit

from pydantic import AfterValidator, BaseModel, ConfigDict, Field, JsonValue, field_validator

from envharness.llm.chat import Sampling

_KEY_REFERENCE = re.compile(r"env:[A-Za-z_][A-Za-z0-9_]*")


def _require_reference(reference: str) -> str:
    if not _KEY_REFERENCE.fullmatch(reference):
        raise ValueError("a key is never written here: put env:NAME, after a variable NAME that holds it")
    return reference


KeyReference = Annotated[str, AfterValidator(_require_reference)]
"""Where a key is found when it is needed: `env:NAME`. A key itself is refused, so that none can end in a file."""


class Endpoint(BaseModel):
    """One server of a model, and what it may be asked at once. None is no limit."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    base_url: str
    api_key: KeyReference | None = None
    """None for servers that want no key."""
    concurrency: int = Field(default=16, ge=1)
    requests_per_minute: int | None = Field(default=None, ge=1)
    tokens_per_minute: int | None = Field(default=None, ge=1)

    @field_validator("base_url")
    @classmethod
    def _is_plain_address(cls, url: str) -> str:
        if not url.startswith(("http://", "https://")):
            raise ValueError("a base_url begins with http:// or https://, such as http://127.0.0.1:8080/v1")
        if any(sign in url for sign in "@?#"):
            raise ValueError("a base_url holds neither user, password nor query; name a key by api_key: env:NAME")
        return url

    @field_validator("base_url")
    @classmethod
    def _is_an_address(cls, url: str) -> str:
        try:
            parts = urlsplit(url)
            named = bool(parts.hostname) and parts.port != 0  # reading the port raises where it is none
        except ValueError:
            named = False
        if not named or not url.isprintable() or " " in url:
            raise ValueError("a base_url names a host and may name a port, such as http://127.0.0.1:8080/v1")
        return url


class Prices(BaseModel):
    """Money per million tokens, in any one currency. Never fetched."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    prompt: float = Field(default=0.0, ge=0)
    cached: float | None = Field(default=None, ge=0)
    """Cached prompt tokens; None is the price of the others."""
    completion: float = Field(default=0.0, ge=0)


class ScriptedCall(BaseModel):
    """A tool call that a scripted answer makes."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    name: str
    arguments: dict[str, JsonValue] = Field(default_factory=dict)


class ScriptedAnswer(BaseModel):
    """A scripted answer that is more than text."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    text: str = ""
    reasoning: str = ""
    tool_calls: tuple[ScriptedCall, ...] = ()
    finish_reason: Literal["stop", "length", "tool_calls", "other"] | None = None
    """None: `tool_calls` where there are some, `stop` elsewhere."""


class ModelConfig(BaseModel):
    """A model that can be asked."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    client: Literal["openai", "litellm", "scripted", "recorded"] = "openai"
    model: str = ""
    """The model's name as its endpoint knows it."""
    endpoints: tuple[Endpoint, ...] = ()
    sampling: Sampling = Sampling()
    timeout_seconds: float = Field(default=120.0, gt=0)
    """Wall clock of one attempt."""
    retries: int = Field(default=5, ge=0, le=20)
    """Attempts beyond the first for what may pass: rate limits, overload, time-outs, malformed answers."""
    prices: Prices = Prices()
    send_seed: bool = True
    """Whether a request's seed is sent; some endpoints refuse the field."""
    max_tokens_field: Literal["max_tokens", "max_completion_tokens"] = "max_tokens"
    """What the endpoint calls the limit of an answer's tokens."""
    extra_body: dict[str, JsonValue] = Field(default_factory=dict)
    """Further fields of every request, for what only one provider knows. No secrets: it is part of the run's record."""
    answers: tuple[str | ScriptedAnswer, ...] = ()
    """`scripted` only: the answers, in order of the turns of an episode."""
    recording: str | None = None
    """`recorded` only: the file of recorded answers."""
    record_from: ModelConfig | None = None
    """`recorded` only: the model that is asked where the file has no answer yet; None makes that an error."""


ANYWHERE = Endpoint(base_url="http://litellm")
"""Stands for the place that litellm knows by the model's string, with an endpoint's ordinary limits."""


def endpoints_of(config: ModelConfig) -> tuple[Endpoint, ...]:
    """Return the endpoints whose answers a call waits for; none where the answers are at hand."""
    if config.client == "recorded":
        return () if config.record_from is None else endpoints_of(config.record_from)
    if config.client == "litellm":
        return config.endpoints or (ANYWHERE,)
    return config.endpoints if config.client == "openai" else ()
