"""How clients are made, shared and closed, and what a scripted one says."""

from __future__ import annotations

import asyncio
import gc
import sys

import pytest
from pydantic import ValidationError

from envharness.core.errors import ConfigError, MalformedAnswerError
from envharness.llm.chat import ChatClient, ChatRequest, Message
from envharness.llm.config import Endpoint, ModelConfig, ScriptedAnswer, ScriptedCall
from envharness.llm.make import client_for, make_client, require_usable
from envharness.testing import fault_replies as replies
from envharness.testing.fault_server import FaultServer

REQUEST = ChatRequest(messages=(Message(role="user", content="hi"),))


def model(server: FaultServer, concurrency: int = 16) -> ModelConfig:
    return ModelConfig(model="m", endpoints=(Endpoint(base_url=server.base_url, concurrency=concurrency),))


def test_one_loop_shares_one_client_and_its_places() -> None:
    async def play(config: ModelConfig) -> None:
        assert client_for(config) is client_for(config.model_copy())
        assert client_for(config) is not client_for(config.model_copy(update={"retries": 1}))
        await asyncio.gather(*(client_for(config).complete(REQUEST) for _ in range(20)))

    with FaultServer.replying(replies.answer(delay=0.02)) as server:
        asyncio.run(play(model(server, concurrency=3)))
        assert len(server.requests) == 20
        assert server.peak == 3


def test_a_client_lasts_as_long_as_its_runner_and_leaves_nothing_open() -> None:
    """What is left open would be a ResourceWarning, and warnings are errors."""
    seen: list[ChatClient] = []

    async def once(config: ModelConfig) -> None:
        seen.append(client_for(config))
        await seen[-1].complete(REQUEST)

    with FaultServer() as server:
        with asyncio.Runner() as runner:
            runner.run(once(model(server)))
            runner.run(once(model(server)))
        asyncio.run(once(model(server)))
        assert seen[0] is seen[1]
        assert seen[2] is not seen[0]
    gc.collect()


def test_a_cancelled_call_gives_its_place_back() -> None:
    async def play(config: ModelConfig) -> str:
        call = asyncio.create_task(client_for(config).complete(REQUEST))
        await asyncio.sleep(0.1)
        call.cancel()
        await asyncio.gather(call, return_exceptions=True)
        async with asyncio.timeout(5):
            return (await client_for(config).complete(REQUEST)).text

    with FaultServer.replying(replies.hang(), replies.answer("second")) as server:
        assert asyncio.run(play(model(server, concurrency=1))) == "second"


def test_outside_a_loop_there_is_no_client() -> None:
    with pytest.raises(RuntimeError, match="no running event loop"):
        client_for(ModelConfig(client="scripted", answers=("a",)))


@pytest.mark.parametrize(
    ("config", "message"),
    [
        (ModelConfig(model="m"), "endpoints: client 'openai' needs at least one"),
        (ModelConfig(endpoints=(Endpoint(base_url="http://x"),)), "needs the name of a model"),
        (ModelConfig(client="scripted"), "answers"),
        (ModelConfig(client="recorded"), "recording"),
        (
            ModelConfig(model="m", endpoints=(Endpoint(base_url="http://x", api_key="env:NOT_SET_HERE"),)),
            "NOT_SET_HERE",
        ),
        (ModelConfig(client="recorded", recording="f", record_from=ModelConfig(model="m")), "endpoints"),
    ],
)
def test_what_a_configuration_lacks_is_said_before_it_costs(config: ModelConfig, message: str) -> None:
    with pytest.raises(ConfigError, match=message):
        require_usable(config)


@pytest.mark.parametrize(
    "url",
    ["http://", "http:///v1", "http://[::1", "http://host:99999/v1", "http://a b/v1", "http://x\ny/v1", "http://h:x"],
)
def test_an_address_that_is_none_is_refused_before_it_is_asked(url: str) -> None:
    with pytest.raises(ValidationError, match="names a host"):
        Endpoint(base_url=url)


def test_a_recording_that_is_not_there_is_said_before_it_costs() -> None:
    with pytest.raises(ConfigError, match=r"there is no file nowhere\.jsonl"):
        require_usable(ModelConfig(client="recorded", recording="nowhere.jsonl"))


@pytest.mark.parametrize("url", ["http://user:pw@host/v1", "https://host/v1?key=abc", "ftp://host"])
def test_an_address_holds_no_secret(url: str) -> None:
    with pytest.raises(ValidationError, match="base_url"):
        Endpoint(base_url=url)


def test_a_key_itself_is_refused() -> None:
    with pytest.raises(ValidationError, match="api_key"):
        Endpoint(base_url="http://x", api_key="sk-123")


def scripted(*requests: ChatRequest) -> list[str]:
    answers = ("first", ScriptedAnswer(text="second", tool_calls=(ScriptedCall(name="go", arguments={"n": 1}),)))

    async def play() -> list[str]:
        client = client_for(ModelConfig(client="scripted", answers=answers))
        found = [await client.complete(request) for request in requests]
        return [answer.text + "".join(call.name + call.arguments for call in answer.tool_calls) for answer in found]

    return asyncio.run(play())


def test_scripted_answers_go_by_the_turn_of_each_episode() -> None:
    keys = ("7/0", "8/0", "8/1", "7/1")
    requests = [REQUEST.model_copy(update={"key": key}) for key in keys]
    assert scripted(*requests) == ["first", "first", 'secondgo{"n": 1}', 'secondgo{"n": 1}']


def test_scripted_answers_without_a_key_go_by_what_was_said() -> None:
    said = ChatRequest(messages=(*REQUEST.messages, Message(role="assistant", content="first")))
    assert scripted(REQUEST, said) == ["first", 'secondgo{"n": 1}']


def test_a_script_that_is_too_short_says_so() -> None:
    with pytest.raises(MalformedAnswerError, match="turn 2 was asked for, and there are 2 answers"):
        scripted(REQUEST.model_copy(update={"key": "1/2"}))


def test_litellm_that_is_not_installed_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "litellm", None)
    with pytest.raises(ConfigError, match=r"pip install 'envharness\[litellm\]'"):
        make_client(ModelConfig(client="litellm", model="bedrock/x"))
