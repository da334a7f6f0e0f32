"""A chat with a model, provider-neutral: what is asked, what is answered, and who answers it."""

from __future__ import annotations

from typing import Annotated, Literal, Protocol

from pydantic import AfterValidator, BaseModel, ConfigDict, Field, JsonValue

from envharness.core.types import ToolSchema
from envharness.core.usage import Usage

Role = Literal["policy", "designer", "distiller"]


def whole(text: str) -> str:
    """Return `text` with halves of surrogate pairs replaced."""
    return text if text.isascii() else text.encode("utf-16", "surrogatepass").decode("utf-16", "replace")


WholeText = Annotated[str, AfterValidator(whole)]
"""What a model wrote. Halves of surrogate pairs are replaced: they can be neither stored nor sent back."""


class ToolCall(BaseModel):
    """A model's wish to call a tool. `arguments` is the raw text: it may be cut, or no JSON at all."""

    model_config = ConfigDict(frozen=True)

    id: WholeText
    name: WholeText
    arguments: WholeText


class Message(BaseModel):
    """One message. `tool_calls` only on the assistant's; `tool_call_id` only, and always, on a tool's result."""

    model_config = ConfigDict(frozen=True)

    role: Literal["system", "user", "assistant", "tool"]
    content: str = ""
    tool_calls: tuple[ToolCall, ...] = ()
    tool_call_id: str | None = None


class Sampling(BaseModel):
    """How an answer is drawn. None leaves the endpoint's own default."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    temperature: float | None = Field(default=None, ge=0.0, le=2.0)
    top_p: float | None = Field(default=None, gt=0.0, le=1.0)
    max_tokens: int | None = Field(default=None, ge=1)
    stop: tuple[str, ...] = ()


class ChatRequest(BaseModel):
    """One call. `key` tells apart calls that say the same: K samples of one prompt stay K different samples."""

    model_config = ConfigDict(frozen=True)

    messages: tuple[Message, ...]
    tools: tuple[ToolSchema, ...] = ()
    json_schema: dict[str, JsonValue] | None = None
    """The answer must be JSON of this schema; None asks for free text or tool calls."""
    tool_choice: Literal["auto", "required", "none"] = "auto"
    sampling: Sampling = Sampling()
    seed: int | None = None
    """The sample's seed, passed on where the endpoint takes one."""
    key: str = ""
    """Which sample this is, such as `{policy_seed}/{turn}`: part of a recording's key, never sent."""
    role: Role = "policy"
    task: str = ""


class ChatAnswer(BaseModel):
    """What came back. An answer may be empty or cut: that is for the caller to handle, and no error."""

    model_config = ConfigDict(frozen=True)

    text: WholeText = ""
    reasoning: WholeText = ""
    """Thought that the endpoint reports apart from the text; empty where it does not."""
    tool_calls: tuple[ToolCall, ...] = ()
    finish_reason: Literal["stop", "length", "tool_calls", "other"] = "stop"
    usage: Usage = Usage()
    model: WholeText = ""
    """The model as the endpoint names it."""


class ChatClient(Protocol):
    """Answers requests. One client serves many episodes at once, on one event loop."""

    async def complete(self, request: ChatRequest) -> ChatAnswer:
        """Answer one request. Raises a ProviderError; what can be retried has been, a bounded number of times."""
        ...

    async def close(self) -> None:
        """Release connections. Idempotent."""
        ...
