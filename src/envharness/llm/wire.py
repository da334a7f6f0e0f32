"""The OpenAI chat protocol: a request as its JSON, and its JSON answer read with suspicion."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any, Literal, cast

import orjson
from pydantic import JsonValue

from envharness.core.types import JsonDict
from envharness.core.usage import Usage
from envharness.llm.chat import ChatAnswer, ChatRequest, Message, Sampling, ToolCall
from envharness.llm.config import ModelConfig, Prices
from envharness.llm.failures import describe_body, filtered, from_status, malformed

_MOST_TOKENS = 1 << 40
"""More than this in one call is no count: it could be neither added up nor priced."""
_SEED_MASK = (1 << 31) - 1
"""Some servers keep a seed in 32 bits and refuse a larger one."""

_FINISH: dict[str, Literal["stop", "length", "tool_calls"]] = {
    "stop": "stop",
    "length": "length",
    "tool_calls": "tool_calls",
    "function_call": "tool_calls",
}


def to_wire(request: ChatRequest, config: ModelConfig) -> JsonDict:
    """Return the request's body. What the request does not say of sampling, the configuration does."""
    body: JsonDict = {
        "model": config.model,
        "messages": [_message_to_wire(message) for message in request.messages],
        **_sampling_to_wire(merged(request.sampling, config.sampling), config.max_tokens_field),
    }
    if request.tools:
        body["tools"] = [
            {"type": "function", "function": cast("JsonDict", tool.model_dump(mode="json"))} for tool in request.tools
        ]
        body["tool_choice"] = request.tool_choice
    if request.json_schema is not None:
        schema: JsonDict = {"name": "answer", "schema": request.json_schema}
        if is_closed(request.json_schema):
            schema["strict"] = True
        body["response_format"] = {"type": "json_schema", "json_schema": schema}
    if request.seed is not None and config.send_seed:
        body["seed"] = request.seed & _SEED_MASK
    return {**body, **config.extra_body}


def merged(request: Sampling, default: Sampling) -> Sampling:
    """Return the sampling of a request, filled up from the configuration's."""
    return default.model_copy(update=request.model_dump(exclude_none=True, exclude_defaults=True))


def is_closed(schema: JsonValue) -> bool:
    """Whether every object in `schema` names all of its keys as required: what strict mode asks for."""
    if isinstance(schema, list):
        return all(is_closed(item) for item in schema)
    if not isinstance(schema, dict):
        return True
    if schema.get("type") == "object" or "properties" in schema:
        properties, required = schema.get("properties"), schema.get("required")
        named = set(properties) if isinstance(properties, dict) else set[str]()
        listed = {str(name) for name in required} if isinstance(required, list) else set[str]()
        if schema.get("additionalProperties") is not False or named != listed:
            return False
    return all(is_closed(value) for value in schema.values())


def from_wire(where: str, body: bytes, prices: Prices) -> ChatAnswer:
    """Read an answer. Raises AttemptFailed where it is none."""
    try:
        return _from_wire(where, body, prices)
    except RecursionError:
        raise malformed(where, "it is nested too deep") from None


def _from_wire(where: str, body: bytes, prices: Prices) -> ChatAnswer:
    data = _object(_decode(where, body))
    if data is None:
        raise malformed(where, f"not a JSON object: {describe_body(body)}")
    error = data.get("error")
    if error:
        # Gateways report what their own provider said inside an answer that is formally a success.
        code = (_object(error) or {}).get("code")
        raise from_status(where, code if isinstance(code, int) and code >= 400 else 502, {}, body)  # noqa: PLR2004
    usage = usage_from_wire(data.get("usage"), prices)
    choices = data.get("choices")
    choice = _object(cast("list[Any]", choices)[0]) if isinstance(choices, list) and choices else None
    message = _object(choice.get("message")) if choice else None
    if choice is None or message is None:
        raise malformed(where, "it holds no choice with a message", usage)
    reason = str(choice.get("finish_reason") or "stop")
    if reason == "content_filter":
        raise filtered(where, usage)
    return ChatAnswer(
        text=_text(message.get("content")) or _text(message.get("refusal")),
        reasoning=_text(message.get("reasoning_content")) or _text(message.get("reasoning")),
        tool_calls=_tool_calls(message),
        finish_reason=_FINISH.get(reason, "other"),
        usage=usage,
        model=_text(data.get("model")),
    )


def usage_from_wire(value: object, prices: Prices) -> Usage:
    """Return the usage of one call. What the endpoint does not report counts 0; the call itself always counts."""
    usage = _object(value) or {}
    prompt, completion = _count(usage.get("prompt_tokens")), _count(usage.get("completion_tokens"))
    cached = _count((_object(usage.get("prompt_tokens_details")) or {}).get("cached_tokens"))
    reasoning = _count((_object(usage.get("completion_tokens_details")) or {}).get("reasoning_tokens"))
    cached = min(cached, prompt)
    return Usage(
        calls=1,
        prompt=prompt,
        cached=cached,
        completion=completion,
        reasoning=min(reasoning, completion),
        cost=cost_of(prices, prompt=prompt, cached=cached, completion=completion),
    )


def cost_of(prices: Prices, *, prompt: int, cached: int, completion: int) -> float:
    """Return what the tokens cost. `cached` is part of `prompt`."""
    cached_price = prices.prompt if prices.cached is None else prices.cached
    return ((prompt - cached) * prices.prompt + cached * cached_price + completion * prices.completion) / 1e6


def _message_to_wire(message: Message) -> JsonDict:
    body: JsonDict = {"role": message.role, "content": message.content}
    if message.tool_calls:
        body["tool_calls"] = [
            {"id": call.id, "type": "function", "function": {"name": call.name, "arguments": call.arguments}}
            for call in message.tool_calls
        ]
    if message.tool_call_id is not None:
        body["tool_call_id"] = message.tool_call_id
    return body


def _sampling_to_wire(sampling: Sampling, max_tokens_field: str) -> JsonDict:
    body: JsonDict = {}
    if sampling.temperature is not None:
        body["temperature"] = sampling.temperature
    if sampling.top_p is not None:
        body["top_p"] = sampling.top_p
    if sampling.max_tokens is not None:
        body[max_tokens_field] = sampling.max_tokens
    if sampling.stop:
        body["stop"] = list(sampling.stop)
    return body


def _tool_calls(message: Mapping[str, Any]) -> tuple[ToolCall, ...]:
    calls = message.get("tool_calls")
    found: list[ToolCall] = []
    for index, item in enumerate(cast("list[Any]", calls) if isinstance(calls, list) else []):
        call = _object(item) or {}
        function = _object(call.get("function")) or {}
        arguments = function.get("arguments")
        # Some servers send the arguments decoded.
        raw = arguments if isinstance(arguments, str) else json.dumps(arguments if arguments is not None else {})
        identity = _text(call.get("id")) or f"call_{index}"
        found.append(ToolCall(id=identity, name=_text(function.get("name")), arguments=raw))
    return tuple(found)


def _decode(where: str, body: bytes) -> object:
    try:
        return orjson.loads(body)
    except orjson.JSONDecodeError:
        pass
    try:
        # Slower, and takes what orjson is right to refuse: half surrogate pairs, bytes that are no UTF-8.
        return json.loads(body.decode(errors="replace"))
    except (ValueError, RecursionError) as error:
        reason = (str(error).splitlines() or [""])[0]
        raise malformed(where, f"not JSON ({reason})") from None


def _object(value: object) -> dict[str, Any] | None:
    return cast("dict[str, Any]", value) if isinstance(value, dict) else None


def _text(value: object) -> str:
    """Return the text of a content field: a string, or a list of parts of which some have text."""
    if isinstance(value, str):
        return value
    if isinstance(value, list):
        return "".join(_text((_object(part) or {}).get("text")) for part in cast("list[Any]", value))
    return ""


def _count(value: object) -> int:
    """Return a number of tokens; some servers send it as a float. 0 for what is none."""
    if isinstance(value, bool) or not isinstance(value, int | float) or not 0 < value <= _MOST_TOKENS:
        return 0
    return int(value)
