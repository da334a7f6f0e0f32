"""Whose fault it was, on real HTTP: a model's slip costs a turn, a provider's fault costs none or the whole episode."""

from __future__ import annotations

import json

import pytest
from pydantic import JsonValue

from envharness.core.policy import PolicySpec
from envharness.core.spec import StackSpec
from envharness.core.trace import Episode
from envharness.rollouts.episode import run_episode
from envharness.rollouts.job import Limits
from envharness.testing import fault_replies as replies
from envharness.testing.fault_server import FaultServer

WIN = [
    replies.answer(None, tool_calls=[("combine", json.dumps({"left": left, "operation": "*", "right": right}))])
    for left, right in (("6", "4"), ("24", "1"))
]


def play(server: FaultServer) -> Episode:
    endpoints: list[JsonValue] = [{"base_url": server.base_url}]
    model: dict[str, JsonValue] = {
        "model": "m",
        "endpoints": endpoints,
        "timeout_seconds": 2,
        "retries": 1,
    }
    stack = StackSpec.environment("toy24", numbers=[1, 4, 6])
    return run_episode(stack, PolicySpec(id="llm", options={"model": model}), limits=Limits(max_steps=5))


SLIPS = {
    "two calls": (replies.two_tool_calls(("stop", "{}"), ("stop", "{}")), "2 tools at once"),
    "wrong arguments": (replies.wrong_tool_arguments("combine"), "not JSON"),
    "cut": (replies.cut_by_length(), "cut off"),
    "noise": (replies.unicode_noise(), "called no tool"),
    "unknown tool": (replies.answer(None, tool_calls=[("divide", "{}")]), "no tool 'divide'"),
    "ill-typed": (replies.answer(None, tool_calls=[("combine", '{"left": 6}')]), "missing argument 'right'"),
}


@pytest.mark.parametrize("slip", SLIPS)
def test_a_slip_of_the_model_costs_one_turn(slip: str) -> None:
    reply, said = SLIPS[slip]
    with FaultServer.replying(reply, *WIN) as server:
        episode = play(server)
    assert episode.success, episode.outcome
    assert said in episode.steps[0].refused
    assert [step.refused for step in episode.steps[1:]] == ["", ""]
    assert len(server.requests) == episode.usage.calls == 3
    told = json.dumps(server.requests[1].body["messages"])
    assert json.dumps(episode.steps[0].refused)[1:-1] in told


PASSING = {
    "rate limit": replies.rate_limited("0"),
    "overloaded": replies.overloaded(),
    "cut body": replies.cut_body(),
    "invalid JSON": replies.invalid_json(),
}


@pytest.mark.parametrize("fault", PASSING)
def test_a_fault_of_the_provider_that_passes_costs_no_turn(fault: str) -> None:
    with FaultServer.replying(PASSING[fault], *WIN) as server:
        episode = play(server)
    assert episode.success, episode.outcome
    assert len(episode.steps) == 2
    assert len(server.requests) == 3


LASTING = {
    "refused": (replies.wrong_key(), "provider_refused"),
    "overloaded": (replies.overloaded(), "policy_error"),
    "context": (replies.context_overflow(), "policy_error"),
    "filtered": (replies.filtered(), "policy_error"),
}


@pytest.mark.parametrize("fault", LASTING)
def test_a_fault_of_the_provider_that_lasts_is_no_failure_of_the_policy(fault: str) -> None:
    reply, cause = LASTING[fault]
    with FaultServer.replying(WIN[0], reply) as server:
        episode = play(server)
    assert (episode.outcome.kind, episode.outcome.reason) == ("invalid", cause)
    assert len(episode.steps) == 1
    assert len(server.requests) <= 3
