"""Servers that nobody planned for, and answers made to hurt: each ends in an answer or a typed error, in bounds."""

from __future__ import annotations

import asyncio
import gzip
import json
import socket
import threading
import time
from collections.abc import Callable, Generator
from contextlib import contextmanager

import pytest
from pydantic import JsonValue

from envharness.core.errors import (
    ConfigError,
    MalformedAnswerError,
    OverloadedError,
    ProviderError,
    ProviderRefusedError,
    ProviderTimeoutError,
    RateLimitError,
)
from envharness.llm.chat import ChatAnswer, ChatRequest, Message
from envharness.llm.config import Endpoint, ModelConfig, Prices
from envharness.llm.make import client_for
from envharness.llm.openai_client import LARGEST_ANSWER
from envharness.testing import fault_replies as replies
from envharness.testing.fault_server import FaultServer

pytestmark = pytest.mark.usefixtures("quick_backoff")
Ask = Callable[..., ChatAnswer]
Talk = Callable[[socket.socket], None]


@contextmanager
def raw_server(talk: Talk, *, family: socket.AddressFamily = socket.AF_INET) -> Generator[str]:
    """Serve each connection by `talk`, which is given the socket; yields the address."""
    host = "::1" if family == socket.AF_INET6 else "127.0.0.1"
    with socket.socket(family, socket.SOCK_STREAM) as listener:
        listener.bind((host, 0))
        listener.listen()

        def serve() -> None:
            while True:
                try:
                    connection, _ = listener.accept()
                except OSError:
                    return
                threading.Thread(target=serve_one, args=(connection,), daemon=True).start()

        def serve_one(connection: socket.socket) -> None:
            with connection:
                try:
                    talk(connection)
                except OSError:
                    return  # the client is gone, which is its right

        thread = threading.Thread(target=serve, daemon=True)
        thread.start()
        shown = f"[{host}]" if ":" in host else host
        try:
            yield f"http://{shown}:{listener.getsockname()[1]}/v1"
        finally:
            listener.shutdown(socket.SHUT_RDWR)
            thread.join()


def ask_at(url: str, **changes: object) -> ChatAnswer:
    config = ModelConfig(model="m", endpoints=(Endpoint(base_url=url),), timeout_seconds=0.5, retries=0)

    async def once() -> ChatAnswer:
        return await client_for(config.model_copy(update=changes)).complete(REQUEST)

    return asyncio.run(once())


REQUEST = ChatRequest(messages=(Message(role="user", content="hi" * 200),))


def heard(connection: socket.socket) -> bytes:
    """Read one request whole."""
    data = b""
    while b"\r\n\r\n" not in data:
        data += connection.recv(65536)
    head, _, body = data.partition(b"\r\n\r\n")
    length = next(int(line[15:]) for line in head.lower().split(b"\r\n") if line.startswith(b"content-length:"))
    while len(body) < length:
        body += connection.recv(65536)
    return head + b"\r\n\r\n" + body


def http(body: bytes, head: bytes = b"HTTP/1.1 200 OK") -> bytes:
    return head + b"\r\ncontent-length: %d\r\n\r\n" % len(body) + body


# --- bodies ------------------------------------------------------------------------------------------------------------


def test_a_body_without_end_is_not_read_to_its_end(ask: Ask) -> None:
    endless = replies.Reply(body=b" " * (LARGEST_ANSWER + 1))
    too_long = pytest.raises(MalformedAnswerError, match=f"longer than {LARGEST_ANSWER} bytes")
    with FaultServer.replying(endless) as server, too_long:
        ask(server, timeout_seconds=10, retries=0)


def test_a_gzip_bomb_is_not_unpacked(ask: Ask) -> None:
    import tracemalloc

    bomb = gzip.compress(b" " * (300 << 20), 1)
    with FaultServer.replying(replies.Reply(body=bomb, headers={"content-encoding": "gzip"})) as server:
        tracemalloc.start()
        with pytest.raises(MalformedAnswerError, match="longer than"):
            ask(server, timeout_seconds=20, retries=0)
        peak = tracemalloc.get_traced_memory()[1]
        tracemalloc.stop()
        assert server.requests[0].headers["accept-encoding"] == "identity"
    assert peak < 100 << 20


def test_an_answer_that_was_packed_unasked_is_read(ask: Ask) -> None:
    packed = replies.Reply(body=gzip.compress(replies.answer("small").body), headers={"content-encoding": "gzip"})
    with FaultServer.replying(packed) as server:
        assert ask(server).text == "small"


@pytest.mark.parametrize(
    "reply",
    [
        replies.Reply(body=b""),
        replies.Reply(status=204, body=b""),
        replies.Reply(body=b'data: {"choices": []}\n\ndata: [DONE]\n\n', headers={"content-type": "text/event-stream"}),
        replies.Reply(body=b"<html>captive portal</html>", headers={"content-type": "text/html"}),
        replies.Reply(body=b"no gzip", headers={"content-encoding": "gzip"}),
        replies.Reply(body=b"?", headers={"content-encoding": "br"}),
        replies.Reply(body=b"[" * 100_000),
        replies.Reply(body=b"null"),
        replies.Reply(body=b'{"choices": [{"message": {"content": %s1%s}}]}' % (b'[{"text":' * 450, b"}]" * 450)),
        replies.Reply(
            body=b'{"choices": [{"message": {"tool_calls": [{"function": {"arguments": %s1%s}}]}}]}'
            % (b'{"a":' * 1010, b"}" * 1010)
        ),
    ],
    ids=["empty", "204", "sse", "html", "no-gzip", "brotli", "deep", "null", "deep-content", "deep-arguments"],
)
def test_what_is_no_answer_is_malformed(reply: replies.Reply, ask: Ask) -> None:
    with FaultServer.replying(reply) as server:
        with pytest.raises(MalformedAnswerError):
            ask(server, retries=1)
        assert len(server.requests) == 2


@pytest.mark.parametrize("depth", [200, 1000, 100_000])
def test_an_error_nested_as_deep_as_it_likes_is_an_error_of_its_status(depth: int, ask: Ask) -> None:
    body = b'{"error": {"message": %s1%s}}' % (b'{"a":' * depth, b"}" * depth)
    with FaultServer.replying(replies.Reply(status=503, body=body)) as server, pytest.raises(OverloadedError):
        ask(server, retries=0)


def test_an_error_in_half_characters_can_be_told(ask: Ask) -> None:
    body = rb'{"error": {"message": "no \ud83d"}}'
    refusing = FaultServer.replying(replies.Reply(status=401, body=body))
    with refusing as server, pytest.raises(ProviderRefusedError, match="no \ufffd") as raised:
        ask(server)
    assert str(raised.value).encode()


def test_a_models_name_in_half_characters_can_be_stored(ask: Ask) -> None:
    reply = replies.answer()
    odd = replies.Reply(body=reply.body.replace(b"fault-model", rb"\ud83d"))
    with FaultServer.replying(odd) as server:
        assert ask(server).model_dump_json()


@pytest.mark.parametrize(
    ("reported", "prompt", "completion"),
    [
        ({"prompt_tokens": 12.0, "completion_tokens": 3.0}, 12, 3),
        ({"prompt_tokens": 12, "completion_tokens": -4}, 12, 0),
        ({"prompt_tokens": 12, "completion_tokens": True}, 12, 0),
        ({"prompt_tokens": 12, "completion_tokens": "3"}, 12, 0),
        ({"prompt_tokens": 12, "completion_tokens": 10**400}, 12, 0),
        ({"prompt_tokens": 12, "completion_tokens": float("nan")}, 12, 0),
        ({"prompt_tokens": 12, "completion_tokens": float("inf")}, 12, 0),
        ({"prompt_tokens": 2**63, "completion_tokens": 3}, 0, 3),
    ],
)
def test_counts_that_are_none_count_nothing(
    reported: dict[str, JsonValue], prompt: int, completion: int, ask: Ask
) -> None:
    body = {"choices": [{"message": {"content": "x"}}], "usage": reported}
    with FaultServer.replying(replies.Reply(body=json.dumps(body).encode())) as server:
        usage = ask(server, prices=Prices(prompt=1.0, completion=1.0)).usage
    assert (usage.prompt, usage.completion) == (prompt, completion)
    assert usage.cost == pytest.approx((prompt + completion) / 1e6)


@pytest.mark.parametrize("reported", [{}, {"usage": None}, {"usage": {"prompt_tokens": 0, "completion_tokens": 0}}])
def test_tokens_that_nobody_counts_are_estimated_so_that_a_budget_ends(
    reported: dict[str, JsonValue], ask: Ask
) -> None:
    body = {"choices": [{"message": {"content": "four" * 50}}], **reported}
    with FaultServer.replying(replies.Reply(body=json.dumps(body).encode())) as server:
        usage = ask(server, REQUEST, prices=Prices(prompt=1.0, completion=2.0)).usage
    assert (usage.calls, usage.prompt, usage.completion) == (1, 100, 50)
    assert usage.cost == pytest.approx(200 / 1e6)


def test_attempts_that_were_paid_for_and_came_to_nothing_are_told_with_the_error(ask: Ask) -> None:
    with FaultServer.replying(replies.empty_choices()) as server, pytest.raises(MalformedAnswerError) as raised:
        ask(server)
    assert raised.value.usage is not None
    assert (raised.value.usage.calls, raised.value.usage.prompt) == (3, 21)


# --- times -------------------------------------------------------------------------------------------------------------


def test_a_server_that_drips_bytes_for_ever_is_timed_out() -> None:
    def drip(connection: socket.socket) -> None:
        heard(connection)
        connection.sendall(b"HTTP/1.1 200 OK\r\ncontent-length: 100000\r\n\r\n")
        while True:
            connection.sendall(b" ")
            time.sleep(0.02)

    began = time.monotonic()
    with raw_server(drip) as url, pytest.raises(ProviderTimeoutError):
        ask_at(url)
    assert time.monotonic() - began < 3


def test_headers_without_end_are_an_error_in_time() -> None:
    def drip(connection: socket.socket) -> None:
        heard(connection)
        connection.sendall(b"HTTP/1.1 200 OK\r\n")
        while True:
            connection.sendall(b"x-more: %s\r\n" % (b"a" * 1000))

    with raw_server(drip) as url, pytest.raises(ProviderError):
        ask_at(url)


@pytest.mark.parametrize("header", ["100000", "1e9", "Fri, 31 Dec 9999 23:59:59 GMT"])
def test_two_endpoints_that_both_ask_for_an_age_are_not_waited_for(header: str, ask: Ask) -> None:
    with (
        FaultServer.replying(replies.rate_limited(header)) as one,
        FaultServer.replying(replies.rate_limited(header)) as two,
    ):
        endpoints = (Endpoint(base_url=one.base_url), Endpoint(base_url=two.base_url))
        with pytest.raises(RateLimitError):
            ask(one, endpoints=endpoints)
        assert (len(one.requests), len(two.requests)) == (1, 1)


@pytest.mark.parametrize("header", ["-1", "nan", "inf", "soon", "", "1 Jan 2024 99999999999999999999:00:00 GMT", "0"])
def test_a_retry_after_that_says_nothing_leaves_the_back_off(header: str, ask: Ask) -> None:
    with FaultServer.replying(replies.rate_limited(header), replies.answer()) as server:
        assert ask(server).text == "ok"
        assert len(server.requests) == 2


def test_a_time_that_is_over_already_does_not_replace_the_back_off(ask: Ask, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("envharness.llm.retry.FIRST_SECONDS", 0.4)
    passed = replies.rate_limited("Wed, 21 Oct 2015 07:28:00 GMT")
    with FaultServer.replying(passed, replies.answer()) as server:
        ask(server, retries=1)
        first, second = server.requests
    assert second.at - first.at >= 0.2


# --- connections -------------------------------------------------------------------------------------------------------


def test_a_kept_connection_that_was_closed_meanwhile_costs_no_attempt() -> None:
    def one_answer_a_connection(connection: socket.socket) -> None:
        heard(connection)
        connection.sendall(http(replies.answer().body))

    with raw_server(one_answer_a_connection) as url:
        config = ModelConfig(model="m", endpoints=(Endpoint(base_url=url),), timeout_seconds=2, retries=0)

        async def three() -> None:
            for _ in range(3):
                await client_for(config).complete(REQUEST)
                await asyncio.sleep(0.05)

        asyncio.run(three())


def test_an_address_of_ipv6_is_reached() -> None:
    def answer(connection: socket.socket) -> None:
        heard(connection)
        connection.sendall(http(replies.answer("six").body))

    with raw_server(answer, family=socket.AF_INET6) as url:
        assert ask_at(url).text == "six"


@pytest.mark.parametrize(
    "url", ["http://no-such-host.invalid/v1", "https://127.0.0.1:{port}/v1", "http://..../v1", "http://127.0.0.1:1/v1"]
)
def test_a_server_that_cannot_be_reached_is_overload(url: str) -> None:
    with FaultServer() as server, pytest.raises((OverloadedError, ProviderTimeoutError)):
        ask_at(url.format(port=server.port), timeout_seconds=5)


CANARY = "sk-canary/0123+45"


def test_a_server_that_echoes_the_request_in_place_of_http_does_not_echo_the_key(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("ECHO_KEY", CANARY)

    def echo(connection: socket.socket) -> None:
        head = heard(connection).partition(b"\r\n\r\n")[0].lower()
        key = next(line for line in head.split(b"\r\n") if line.startswith(b"authorization"))
        assert CANARY.lower().encode() in key
        connection.sendall(b"HTTP/1.1 200 OK\r\nBearer " + CANARY.encode() + b"\r\n\r\n")

    with raw_server(echo) as url, pytest.raises(OverloadedError) as raised:
        ask_at(url, endpoints=(Endpoint(base_url=url, api_key="env:ECHO_KEY"),))
    assert CANARY not in str(raised.value)


@pytest.mark.parametrize("escaped", [CANARY, CANARY.replace("/", "\\/"), CANARY.replace("+", "\\u002B")])
def test_a_key_that_comes_back_escaped_is_written_over(escaped: str, ask: Ask, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("ECHO_KEY", CANARY)
    body = f'{{"error": {{"message": "wrong key {escaped}!"}}}}'
    good = replies.answer("KEY").body.replace(b"KEY", escaped.encode())
    with FaultServer.replying(replies.Reply(body=good), replies.Reply(status=401, body=body.encode())) as server:
        endpoints = (Endpoint(base_url=server.base_url, api_key="env:ECHO_KEY"),)
        assert ask(server, endpoints=endpoints).text == "[key]"
        with pytest.raises(ProviderRefusedError, match=r"wrong key \[key\]!"):
            ask(server, endpoints=endpoints)


@pytest.mark.parametrize("key", ["x", "1", "EMPTY"])
def test_a_placeholder_for_a_key_is_not_taken_out_of_answers(
    key: str, ask: Ask, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("LOCAL_KEY", key)
    with FaultServer.replying(replies.answer("x = 1; the EMPTY box", prompt=11)) as server:
        answer = ask(server, endpoints=(Endpoint(base_url=server.base_url, api_key="env:LOCAL_KEY"),))
    assert (answer.text, answer.usage.prompt) == ("x = 1; the EMPTY box", 11)


@pytest.mark.parametrize("form", ["http://{}", "{}"])
def test_a_proxy_of_the_environment_is_used_however_it_is_written(
    form: str, ask: Ask, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("no_proxy", raising=False)
    monkeypatch.delenv("NO_PROXY", raising=False)
    with FaultServer.replying(replies.answer("by proxy")) as proxy:
        monkeypatch.setenv("http_proxy", form.format(f"127.0.0.1:{proxy.port}"))
        answer = ask(proxy, endpoints=(Endpoint(base_url="http://model.invalid/v1"),))
        assert answer.text == "by proxy"
        assert proxy.requests[0].path == "http://model.invalid/v1/chat/completions"


def test_a_proxy_of_no_known_kind_is_named(ask: Ask, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("no_proxy", raising=False)
    monkeypatch.delenv("NO_PROXY", raising=False)
    monkeypatch.setenv("http_proxy", "gopher://user:hunter2@127.0.0.1:70")
    with FaultServer() as server, pytest.raises(ConfigError, match="a proxy of kind 'gopher'") as raised:
        ask(server, endpoints=(Endpoint(base_url="http://model.invalid/v1"),))
    assert "hunter2" not in str(raised.value)
