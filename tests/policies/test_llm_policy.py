from __future__ import annotations

import asyncio
import json
import re
import traceback
from collections.abc import Sequence
from pathlib import Path

import pytest
from pydantic import JsonValue

from canned import CannedClient, calling
from envharness import make, run_episode
from envharness.core.errors import ConfigError, OverloadedError
from envharness.core.policy import Decision, PolicySpec, Turn
from envharness.core.trace import Episode
from envharness.core.types import Action, Observation
from envharness.core.usage import Usage
from envharness.llm.chat import ChatAnswer, ChatRequest
from envharness.policies.formats import FormatName
from envharness.policies.llm import LanguageModelPolicy
from envharness.rigger.config import EnvironmentConfig, RigConfig
from envharness.rigger.loop import rig
from envharness.rollouts.engine import make_engine
from envharness.rollouts.job import Limits
from envharness.store.database import RunStore

NOWHERE: dict[str, JsonValue] = {"client": "scripted", "answers": ["nothing"]}
WIN = [
    calling(("combine", '{"left": "6", "operation": "*", "right": "4"}'), text="Six fours."),
    calling(("combine", '{"left": "24", "operation": "*", "right": "1"}')),
]


def play(
    answers: Sequence[ChatAnswer | str | Exception],
    *,
    format_name: FormatName = "function_calling",
    steps: int = 8,
    **options: object,
) -> tuple[Episode, CannedClient]:
    client = CannedClient(answers)
    policy = LanguageModelPolicy(7, client=client, model=NOWHERE, format=format_name, **options)
    with make("toy24", numbers=[1, 4, 6]) as env:
        return run_episode(env, policy, limits=Limits(max_steps=steps)), client


def test_it_wins_by_tool_calls_and_sees_what_they_did() -> None:
    episode, client = play(WIN)
    assert episode.success
    assert [step.text for step in episode.steps] == ["Six fours.", ""]
    first, second = client.asked
    assert [message.role for message in first.messages] == ["system", "user"]
    assert [tool.name for tool in first.tools] == ["combine", "reset_numbers", "stop"]
    assert [message.role for message in second.messages] == ["system", "user", "assistant", "tool"]
    assert second.messages[3].tool_call_id == second.messages[2].tool_calls[0].id
    assert second.messages[3].content == episode.steps[0].shown.text
    assert [request.key for request in client.asked] == ["7/0", "7/1"]
    assert first.seed != second.seed
    assert first.role == "policy"


def test_it_wins_by_text_in_the_other_formats() -> None:
    moves = [json.loads(answer.tool_calls[0].arguments) for answer in WIN]
    lines = [f"combine({', '.join(f'{name}={json.dumps(value)}' for name, value in move.items())})" for move in moves]
    assert play(lines, format_name="text")[0].success
    assert play([f"<think>t</think><action>{line}</action>" for line in lines], format_name="think_action")[0].success
    objects = [json.dumps({"thought": "t", "action": {"tool": "combine", "arguments": move}}) for move in moves]
    episode, client = play(objects, format_name="json_schema")
    assert episode.success
    assert all(request.json_schema and not request.tools for request in client.asked)


MALFORMED: list[tuple[ChatAnswer | str, str]] = [
    (calling(("stop", "{}"), ("stop", "{}")), "2 tools at once"),
    (calling(("stop", "{")), "not JSON"),
    ("Let me think.", "called no tool"),
    ("", "empty"),
    (WIN[0].model_copy(update={"finish_reason": "length"}), "cut off"),
    (calling(("divide", "{}")), "there is no tool 'divide'"),
    (calling(("combine", '{"left": 6, "operation": "*"}')), "argument 'left'.*missing argument 'right'"),
]


@pytest.mark.parametrize(("answer", "said"), MALFORMED)
def test_a_malformed_answer_is_a_turn_without_effect_that_is_explained_to_the_model(
    answer: ChatAnswer | str, said: str
) -> None:
    episode, client = play([answer, *WIN])
    assert episode.success
    assert len(episode.steps) == 3
    wrong = episode.steps[0]
    assert not wrong.raw or wrong.raw[0].response.info["refused"]
    assert re.search(said, wrong.refused)
    assert wrong.shown.text.startswith(wrong.refused)
    told = client.asked[1].messages
    assert [message.content for message in told if wrong.refused in message.content] == [wrong.shown.text]
    assert "Numbers left (3): " in wrong.shown.text


def test_malformed_answers_count_so_that_an_episode_ends() -> None:
    episode, client = play([""], steps=5)
    assert episode.outcome.reason == "out_of_steps"
    assert len(client.asked) == 5
    assert [message.role for message in client.asked[-1].messages[1:4]] == ["user", "assistant", "user"]


def test_what_could_not_be_read_is_kept_for_the_trace() -> None:
    episode, _ = play([calling(("stop", "{"), text="I stop."), *WIN])
    assert episode.steps[0].text == "I stop.\n[call] stop({)"


def test_thoughts_are_stored_and_reach_nothing_else() -> None:
    thinking = WIN[0].model_copy(update={"text": "<think>SECRET one</think>Go.", "reasoning": "SECRET two"})
    episode, client = play([thinking, WIN[1]])
    assert episode.steps[0].text == "SECRET two\nSECRET one\nGo."
    reached = [step.model_dump_json(exclude={"text"}) for step in episode.steps]
    assert "SECRET" not in "".join(reached)
    assert "SECRET" not in client.asked[1].model_dump_json()


def test_instructions_and_skills_are_part_of_the_system_message() -> None:
    _, client = play(WIN, instructions="You like numbers.", skills=["Multiply first.", "Check the target."])
    system = client.asked[0].messages[0].content
    assert system.startswith("You like numbers.\n\n")
    assert system.endswith("- Multiply first.\n- Check the target.")
    plain = play(WIN)[1].asked[0].messages[0].content
    assert "You act in an environment" in plain
    assert "earlier episodes" not in plain


def test_the_window_is_said_to_be_cut() -> None:
    _, client = play([calling(("reset_numbers", "{}"))], steps=12, history_tokens=700)
    first, last = client.asked[0].messages, client.asked[-1].messages
    assert "Left out" not in first[1].content
    assert last[0] == first[0]
    assert last[1].content.startswith(first[1].content)
    assert "Left out here for want of room: " in last[1].content
    assert len(last) < 2 + 2 * 11


def test_tokens_are_counted_and_a_provider_that_fails_makes_the_episode_invalid() -> None:
    paid = WIN[0].model_copy(update={"usage": Usage(calls=1, prompt=100, completion=9)})
    episode, _ = play([paid, OverloadedError("HTTP 529, after 5 attempts")])
    assert not episode.valid
    assert "HTTP 529" in episode.outcome.detail
    assert episode.usage == Usage(calls=1, prompt=100, completion=9)
    assert episode.steps[0].usage == episode.usage


def test_noise_in_an_answer_costs_a_turn_and_no_episode() -> None:
    episode, _ = play([ChatAnswer(text="a\ud83d", tool_calls=WIN[0].tool_calls), *WIN])
    assert episode.valid
    assert episode.steps[0].text == "a\ufffd"


def test_the_same_seed_asks_the_same_and_another_one_asks_for_other_samples() -> None:
    def asked(seed: int) -> ChatRequest:
        client = CannedClient(WIN)
        policy = LanguageModelPolicy(seed, client=client, model=NOWHERE)
        turn = Turn(observation=Observation(text="x"), tools=(), step=3)
        asyncio.run(policy.act(turn))
        return client.asked[0]

    assert asked(1) == asked(1)
    assert asked(1).seed != asked(2).seed
    assert asked(1).key != asked(2).key


WRONG: list[tuple[dict[str, JsonValue], str]] = [
    ({}, r"option 'model': Field required"),
    ({"model": NOWHERE, "format": "xml"}, "option 'format'.*'function_calling', 'think_action'"),
    ({"model": NOWHERE, "tools": []}, r"option 'tools'.*options: model, format, history_tokens"),
    ({"model": {"endpoints": [{"base_url": "http://x", "api_key": "sk-1"}]}}, r"option 'model.endpoints.0.api_key'"),
    ({"model": {"model": "m"}}, "model: .*endpoints"),
    ({"model": {"model": "m", "endpoints": [{"base_url": "http://x", "api_key": "env:NO_SUCH_KEY"}]}}, "NO_SUCH_KEY"),
]


@pytest.mark.parametrize(("options", "said"), WRONG)
def test_wrong_options_are_found_before_anything_is_asked(options: dict[str, JsonValue], said: str) -> None:
    with pytest.raises(ConfigError, match=said) as caught:
        PolicySpec(id="llm", options=options).check()
    assert "sk-1" not in "".join(traceback.format_exception(caught.value)), "not with --debug either"


def test_a_problem_named_by_any_policy_is_shown_and_recorded() -> None:
    class Hesitant:
        async def act(self, turn: Turn) -> Decision:
            return Decision(problem="You hesitate.") if turn.step == 0 else Decision(action=Action(name="stop"))

        async def close(self) -> None:
            return

    with make("toy24") as env:
        first = run_episode(env, Hesitant()).steps[0]
    assert first.refused == "You hesitate."
    assert first.shown.text.startswith("You hesitate.\n\nA new deal.")


def model_at(temperature: float | None) -> dict[str, JsonValue]:
    return {"client": "scripted", "answers": ["x"], "sampling": {"temperature": temperature}}


def config(policy: PolicySpec, rollouts: int = 5) -> RigConfig:
    return RigConfig(environment=EnvironmentConfig(id="toy24"), tasks=["easy-0000"], policy=policy, rollouts=rollouts)


def test_rigging_at_temperature_zero_is_refused_before_anything_is_paid(tmp_path: Path) -> None:
    greedy = PolicySpec(id="llm", options={"model": model_at(0)})
    with (
        RunStore.open(tmp_path, config={}, command="test") as store,
        make_engine("inline") as engine,
        pytest.raises(ConfigError, match=r"temperature 0 plays all 5 rollouts the same way.*\[0.4, 0.6\]"),
    ):
        rig(config(greedy), store=store, engine=engine)


@pytest.mark.parametrize("temperature", [None, 0.7])
def test_other_temperatures_one_rollout_and_other_policies_pass(temperature: float | None) -> None:
    config(PolicySpec(id="llm", options={"model": model_at(temperature)})).check_policy()
    config(PolicySpec(id="llm", options={"model": model_at(0)}), rollouts=1).check_policy()
    config(PolicySpec(id="solver")).check_policy()
