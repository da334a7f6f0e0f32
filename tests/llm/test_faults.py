"""The real client against a server that misbehaves: the class of the outcome, how often it asks, what it books."""

from __future__ import annotations

import asyncio
import dataclasses
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from email.utils import format_datetime
from pathlib import Path

import pytest

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
from envharness.llm.chat import ChatAnswer, ChatRequest, Message
from envharness.llm.config import Endpoint, ModelConfig, Prices
from envharness.llm.make import client_for
from envharness.testing import fault_replies as replies
from envharness.testing.fault_server import FaultServer

pytestmark = pytest.mark.usefixtures("quick_backoff")
Ask = Callable[..., ChatAnswer]

ATTEMPTS = 3
"""The first, and two retries: what the fixture `ask` configures."""


@pytest.mark.parametrize(
    ("reply", "kind", "requests"),
    [
        (replies.wrong_key(), ProviderRefusedError, 1),
        (replies.no_permission(), ProviderRefusedError, 1),
        (replies.unknown_model(), ProviderRefusedError, 1),
        (replies.error(402, "pay first"), ProviderRefusedError, 1),
        (replies.error(429, "no credit", code="insufficient_quota"), ProviderRefusedError, 1),
        (replies.error(400, "API key not valid. Please pass a valid API key."), ProviderRefusedError, 1),
        (replies.rate_limited(), RateLimitError, ATTEMPTS),
        (replies.rate_limited("0.01"), RateLimitError, ATTEMPTS),
        (replies.rate_limited("100000"), RateLimitError, 1),
        (replies.overloaded(500), OverloadedError, ATTEMPTS),
        (replies.overloaded(503), OverloadedError, ATTEMPTS),
        (replies.overloaded(529), OverloadedError, ATTEMPTS),
        (replies.error_inside_success(), OverloadedError, ATTEMPTS),
        (replies.cut_body(), OverloadedError, ATTEMPTS),
        (replies.hang(), ProviderTimeoutError, ATTEMPTS),
        (replies.answer(delay=5.0), ProviderTimeoutError, ATTEMPTS),
        (replies.overloaded(504), ProviderTimeoutError, ATTEMPTS),
        (replies.invalid_json(), MalformedAnswerError, ATTEMPTS),
        (replies.empty_choices(), MalformedAnswerError, ATTEMPTS),
        (replies.Reply(body=b"[]"), MalformedAnswerError, ATTEMPTS),
        (replies.Reply(body=b'{"choices": [{"message": null}]}'), MalformedAnswerError, ATTEMPTS),
        (replies.context_overflow(), ContextTooLongError, 1),
        (replies.error(413, "too large"), ContextTooLongError, 1),
        (replies.error(500, "the request exceeds the available context size"), ContextTooLongError, 1),
        (replies.filtered(), ContentFilterError, 1),
        (replies.error(400, "blocked", code="content_filter"), ContentFilterError, 1),
        (replies.error(400, "unknown field 'seed'"), ProviderError, 1),
    ],
    ids=str,
)
def test_every_fault_has_its_class_and_a_bounded_number_of_requests(
    reply: replies.Reply, kind: type[ProviderError], requests: int, ask: Ask
) -> None:
    with FaultServer.replying(reply) as server:
        with pytest.raises(ProviderError) as raised:
            ask(server)
        assert type(raised.value) is kind
        assert len(server.requests) == requests
        assert "\n" not in str(raised.value)
        assert f"m at {server.base_url}" in str(raised.value)


@pytest.mark.parametrize(
    "fault",
    [
        replies.rate_limited("0"),
        replies.overloaded(),
        replies.hang(),
        replies.cut_body(),
        replies.invalid_json(),
        replies.error_inside_success(),
    ],
    ids=str,
)
def test_a_fault_that_passes_costs_one_more_request_and_nothing_else(fault: replies.Reply, ask: Ask) -> None:
    with FaultServer.replying(fault, replies.answer("there")) as server:
        answer = ask(server)
        assert answer.text == "there"
        assert answer.usage == Usage(calls=1, prompt=10, completion=5)
        assert len(server.requests) == 2


def test_an_attempt_that_was_paid_for_is_booked(ask: Ask) -> None:
    with FaultServer.replying(replies.empty_choices(), replies.answer()) as server:
        assert ask(server).usage == Usage(calls=2, prompt=17, completion=5)


def test_a_server_that_is_not_there_is_overload(ask: Ask) -> None:
    with FaultServer() as server:
        gone = FaultServer(port=server.port)
    with pytest.raises(OverloadedError, match=r"the connection failed.*attempt 3 of 3"):
        ask(gone)


@pytest.mark.parametrize("form", ["seconds", "date"])
def test_retry_after_is_waited_for(form: str, ask: Ask) -> None:
    in_a_while = datetime.now(UTC) + timedelta(seconds=2)
    header = "0.6" if form == "seconds" else format_datetime(in_a_while, usegmt=True)
    with FaultServer.replying(replies.rate_limited(header), replies.answer()) as server:
        ask(server)
        first, second = server.requests
        assert second.at - first.at >= 0.6


def test_a_pause_too_long_to_wait_for_is_named(ask: Ask) -> None:
    message = r"HTTP 429.*asks to be left alone for 900 s, which is not waited for"
    with FaultServer.replying(replies.rate_limited("900")) as server, pytest.raises(RateLimitError, match=message):
        ask(server)


def test_a_request_that_is_not_taken_names_what_may_be_changed(ask: Ask) -> None:
    refusal = replies.error(400, "Unsupported parameter: 'max_tokens'")
    with FaultServer.replying(refusal) as server, pytest.raises(ProviderError, match="max_tokens_field, send_seed"):
        ask(server)


def test_a_slow_first_byte_within_the_limit_is_an_answer(ask: Ask) -> None:
    with FaultServer.replying(replies.answer("late").after(0.2)) as server:
        assert ask(server).text == "late"
        assert len(server.requests) == 1


def test_wrong_tool_arguments_come_back_as_they_are(ask: Ask) -> None:
    with FaultServer.replying(replies.wrong_tool_arguments("compute")) as server:
        call = ask(server).tool_calls[0]
    assert (call.name, call.arguments) == ("compute", '{"expression": "1 +')


def test_both_of_two_tool_calls_come_back(ask: Ask) -> None:
    with FaultServer.replying(replies.two_tool_calls(("a", "{}"), ("b", '{"x": 1}'))) as server:
        answer = ask(server)
    assert [(call.id, call.name) for call in answer.tool_calls] == [("call_0", "a"), ("call_1", "b")]
    assert answer.finish_reason == "tool_calls"


def test_an_answer_cut_by_length_says_so(ask: Ask) -> None:
    with FaultServer.replying(replies.cut_by_length("half")) as server:
        answer = ask(server)
    assert (answer.text, answer.finish_reason) == ("half", "length")


def test_unicode_noise_becomes_text_that_can_be_stored(ask: Ask) -> None:
    with FaultServer.replying(replies.unicode_noise()) as server:
        answer = ask(server)
    assert answer.text.startswith("café 😀 \ufffd")
    assert ChatAnswer.model_validate_json(answer.model_dump_json()) == answer


def test_usage_and_cost_are_read_and_priced(ask: Ask) -> None:
    reply = replies.answer(prompt=1000, cached=400, completion=200, reasoning=50)
    with FaultServer.replying(reply) as server:
        usage = ask(server, prices=Prices(prompt=3.0, cached=0.5, completion=15.0)).usage
    assert usage.model_copy(update={"cost": 0.0}) == Usage(
        calls=1, prompt=1000, cached=400, completion=200, reasoning=50
    )
    assert usage.cost == pytest.approx((600 * 3.0 + 400 * 0.5 + 200 * 15.0) / 1e6)


def test_a_failing_endpoint_is_left_for_another(ask: Ask) -> None:
    with FaultServer.replying(replies.rate_limited("60")) as limited, FaultServer() as good:
        endpoints = (Endpoint(base_url=limited.base_url), Endpoint(base_url=good.base_url))
        assert ask(limited, endpoints=endpoints).text == "ok"
        assert (len(limited.requests), len(good.requests)) == (1, 1)


def test_the_key_is_sent_and_never_told(ask: Ask, monkeypatch: pytest.MonkeyPatch) -> None:
    canary = "sk-canary-0123456789"
    monkeypatch.setenv("FAULT_KEY", f"{canary}\n")
    with FaultServer.replying(replies.wrong_key(canary)) as server:
        endpoint = Endpoint(base_url=server.base_url, api_key="env:FAULT_KEY")
        with pytest.raises(ProviderRefusedError, match=r"HTTP 401: Incorrect API key provided: \[key\]") as raised:
            ask(server, endpoints=(endpoint,))
        assert server.requests[0].headers["authorization"] == f"Bearer {canary}"
    assert canary not in repr(raised.value)
    assert raised.value.__cause__ is None


def test_a_key_that_is_not_set_is_named(ask: Ask, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("FAULT_KEY", raising=False)
    with FaultServer() as server:
        endpoint = Endpoint(base_url=server.base_url, api_key="env:FAULT_KEY")
        with pytest.raises(ProviderRefusedError, match="FAULT_KEY, its api_key, is not set"):
            ask(server, endpoints=(endpoint,))
        assert not server.requests


def test_what_the_environment_says_of_openai_is_sent_to_nobody(ask: Ask, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("OPENAI_API_KEY", "OPENAI_ORG_ID", "OPENAI_PROJECT_ID", "OPENAI_ADMIN_KEY"):
        monkeypatch.setenv(name, "canary")
    monkeypatch.setenv("OPENAI_CUSTOM_HEADERS", "X-Own: canary")
    with FaultServer() as server:
        ask(server)
        assert "canary" not in str(server.requests[0].headers)


def test_the_request_goes_over_as_the_protocol_has_it(ask: Ask) -> None:
    request = ChatRequest(
        messages=(Message(role="system", content="s"), Message(role="user", content="ü")),
        json_schema={"type": "object", "properties": {"a": {}}, "required": ["a"], "additionalProperties": False},
        seed=1 << 40,
        key="secret sample",
    )
    with FaultServer() as server:
        ask(server, request)
        body = server.requests[0].body
    assert body == {
        "model": "m",
        "messages": [{"role": "system", "content": "s"}, {"role": "user", "content": "ü"}],
        "response_format": {
            "type": "json_schema",
            "json_schema": {"name": "answer", "schema": request.json_schema, "strict": True},
        },
        "seed": 0,
    }


def test_a_redirect_is_refused_and_not_followed(ask: Ask) -> None:
    with FaultServer() as elsewhere:
        moved = replies.Reply(status=307, headers={"location": f"{elsewhere.base_url}/chat/completions"})
        with FaultServer.replying(moved) as server, pytest.raises(ProviderRefusedError, match=r"HTTP 307 .*base_url"):
            ask(server)
        assert elsewhere.requests == []


def test_cookies_of_one_call_are_not_sent_with_the_next(ask: Ask) -> None:
    answer = replies.answer("a")
    answer = dataclasses.replace(answer, headers={**answer.headers, "set-cookie": "who=me"})
    broken = dataclasses.replace(replies.invalid_json(), headers={"set-cookie": "who=me"})
    with FaultServer.replying(broken, answer) as server:
        ask(server)
        assert [request.headers.get("cookie") for request in server.requests] == [None, None]


def test_a_netrc_file_is_not_read(ask: Ask, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    netrc = tmp_path / "netrc"
    netrc.write_text("machine 127.0.0.1 login me password canary\n")
    monkeypatch.setenv("NETRC", str(netrc))
    with FaultServer.replying(replies.answer("a")) as server:
        ask(server)
        assert "authorization" not in server.requests[0].headers


def test_a_dead_endpoint_uses_up_no_call_while_the_others_are_busy() -> None:
    with FaultServer() as dead:
        nobody = dead.base_url

    async def all_of_them(good: str) -> list[ChatAnswer]:
        endpoints = (Endpoint(base_url=nobody, concurrency=1), Endpoint(base_url=good, concurrency=1))
        client = client_for(ModelConfig(model="m", endpoints=endpoints, timeout_seconds=5, retries=2))
        calls = [ChatRequest(messages=(Message(role="user"),), key=str(number)) for number in range(12)]
        return await asyncio.gather(*map(client.complete, calls))

    with FaultServer.replying(replies.answer("ok", delay=0.1)) as server:
        assert [answer.text for answer in asyncio.run(all_of_them(server.base_url))] == ["ok"] * 12
        assert len(server.requests) == 12
