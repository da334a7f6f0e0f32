from __future__ import annotations

import pytest

from envharness.components.contract import Contract
from envharness.components.tap import tapped
from envharness.core.env import ActionableEnv
from envharness.core.errors import HookFault, LifecycleError, SpecError
from envharness.core.spec import StackSpec, make
from envharness.core.trace import ComponentEvent
from envharness.core.types import EnvResponse
from kitchen import Kitchen, drawer, put, take


def contract(body: str, inner: ActionableEnv | None = None) -> Contract:
    return Contract(inner or Kitchen(), "class _Contract(Contract):\n" + body)


def play(env: ActionableEnv, *actions: object) -> tuple[EnvResponse, list[ComponentEvent], Kitchen]:
    """Reset, take the actions, and return the last response, all events, and the kitchen below."""
    response: EnvResponse | None = None
    with tapped(env) as (top, recorder):
        top.reset()
        for action in actions:
            response = top.step(action)  # pyright: ignore[reportArgumentType]
        events = recorder.events
    kitchen = list(env.layers())[-1]
    assert isinstance(kitchen, Kitchen)
    assert response is not None
    return response, events, kitchen


BLOCK_TAKE = """
    def filter_action(self, action, env_state):
        return Blocked(reason="hands off") if action.name == "take" else action
"""


def test_a_block_leaves_the_environment_untouched_and_strands_nobody() -> None:
    with contract(BLOCK_TAKE) as env:
        response, events, kitchen = play(env, take())
        assert kitchen.steps == 0
        assert response.observation.text == "hands off\n\nPut the mug on the desk. A mug is here."
        assert not response.terminated
        assert [(event.component, event.kind, event.detail) for event in events] == [
            ("contract#0", "blocked", "hands off")
        ]
        assert env.observe().text == "Put the mug on the desk. A mug is here."
        assert not env.step(drawer("open")).info


def test_what_a_block_or_a_refusal_shows_has_passed_the_filter() -> None:
    body = (
        BLOCK_TAKE
        + """
    def filter_observation(self, observation, env_state):
        return Observation(text=observation.text.replace("mug", "thing"), data={})
"""
    )
    with contract(body) as env:
        env.reset()
        assert "mug" not in env.step(take()).observation.text
        refused = env.step(put("shelf"))
        assert refused.info["refused"]
        assert "mug is here" not in refused.observation.text
        assert refused.observation.data == {}


def test_an_action_is_rewritten_and_the_trace_says_what_reached_the_environment() -> None:
    body = """
    def filter_action(self, action, env_state):
        if action.name == "put":
            action.kwargs["place"] = "counter"
        return action
"""
    with contract(body) as env, tapped(env) as (top, recorder):
        top.reset()
        top.step(take())
        asked = put("desk")
        assert not top.step(asked).terminated
        assert asked == put("desk"), "a hook works on a copy"
        assert [exchange.action for exchange in recorder.exchanges] == [take(), put("counter")]
        assert not top.evaluate().success


def test_each_hook_sees_the_state_it_is_promised() -> None:
    body = """
    def filter_action(self, action, env_state):
        env_state.extras["before"] = env_state.mug
        return action

    def modify_transition(self, action, response, env_state):
        env_state.extras["after"] = env_state["mug"]
        return response

    def filter_observation(self, observation, env_state):
        before, after = env_state.extras.get("before"), env_state.extras.get("after")
        return Observation(text=f"{before} {after} {env_state.mug}")
"""
    with contract(body) as env:
        assert env.reset().observation.text == "None None counter"
        assert env.step(take()).observation.text == "counter hand hand"


def test_the_observation_filter_runs_once_a_transition() -> None:
    body = """
    def filter_observation(self, observation, env_state):
        env_state.extras["runs"] = env_state.extras.get("runs", 0) + 1
        return Observation(text=str(env_state.extras["runs"]))
"""
    with contract(body) as env:
        assert env.reset().observation.text == "1"
        assert [env.observe().text, env.observe().text] == ["1", "1"]
        env.observe().data["spoilt"] = True
        assert env.observe().data == {}
        assert env.step(take()).observation.text == "2"
        assert env.observe().text == "2"


FORGE = """
    def modify_transition(self, action, response, env_state):
        env_state.mug = "desk"
        env_state["mug"] = "desk"
        return EnvResponse(observation=response.observation, reward=99.0, terminated=True, info={"success": True, "blocked": "x"})
"""


def test_reward_info_and_verdict_are_out_of_reach() -> None:
    with contract(FORGE) as env:
        response, events, kitchen = play(env, take())
        assert response.reward == 0.0
        assert response.info == {}
        assert response.terminated, "a hook may end an episode"
        assert kitchen.mug == "hand"
        assert not env.evaluate().success
        assert {event.kind for event in events} == {"violation", "ended_episode"}
        with pytest.raises(LifecycleError, match="after the end"):
            env.step(take())


TAKE_BACK = """
    def modify_transition(self, action, response, env_state):
        return failed(response, "not yet")
"""


def test_a_termination_is_taken_back_only_where_the_bridge_can() -> None:
    with contract(TAKE_BACK) as env:
        response, events, _ = play(env, take(), put("desk"))
        assert response.terminated
        assert "violation" in {event.kind for event in events}
    with contract(TAKE_BACK, Kitchen(resumable=True)) as env:
        response, events, kitchen = play(env, take(), put("desk"))
        assert not response.terminated
        assert "resumed_episode" in {event.kind for event in events}
        assert kitchen.step(take()).observation.text.startswith("You take the mug")


def test_a_truncation_is_never_taken_back() -> None:
    body = """
    def modify_transition(self, action, response, env_state):
        return EnvResponse(observation=response.observation, truncated=False, terminated=False)
"""
    with contract(body, Kitchen(resumable=True, max_steps=1)) as env:
        response, events, _ = play(env, take())
        assert response.truncated
        assert "violation" in {event.kind for event in events}


def test_contracts_stack_and_order_matters() -> None:
    upper = "    def filter_observation(self, observation, env_state):\n        return Observation(text=observation.text.upper())\n"
    mug = "    def filter_observation(self, observation, env_state):\n        return Observation(text=observation.text.replace('mug', 'cup'))\n"
    with contract(upper, contract(mug)) as env:
        assert "A CUP IS HERE" in env.reset().observation.text
    with contract(mug, contract(upper)) as env:
        assert "A MUG IS HERE" in env.reset().observation.text


def test_a_fault_costs_the_episode_and_the_next_one_is_fine() -> None:
    body = """
    def modify_transition(self, action, response, env_state):
        if env_state.steps == 2:
            raise ValueError("bad day")
        return response
"""
    with contract(body) as env:
        env.reset()
        env.step(take())
        with pytest.raises(HookFault, match="bad day"):
            env.step(put("counter"))
        env.reset()
        env.step(take())


@pytest.mark.parametrize(
    ("source", "words"),
    [("def (", "line 1"), ("x = 1", "_Contract"), ("class _Contract(Contract):\n    pass\nimport os", "os")],
)
def test_source_that_does_not_load_says_why_at_reset(source: str, words: str) -> None:
    with Contract(Kitchen(), source) as env, pytest.raises(HookFault, match=words):
        env.reset()


def test_the_random_stream_is_the_candidates_and_not_the_rollouts() -> None:
    source = """
import random
class _Contract(Contract):
    def filter_observation(self, observation, env_state):
        return Observation(text=str(random.random()))
"""
    texts = set[str]()
    for reset_seed in range(3):
        with Contract(Kitchen(), source, seed=5) as env:
            texts.add(env.reset(seed=reset_seed).observation.text)
    assert len(texts) == 1
    with Contract(Kitchen(), source, seed=6) as env:
        assert env.reset().observation.text not in texts


def test_calls_out_of_order_are_refused() -> None:
    with contract(BLOCK_TAKE) as env:
        with pytest.raises(LifecycleError, match="before reset"):
            env.observe()
        with pytest.raises(LifecycleError, match="before reset"):
            env.step(take())


@pytest.mark.parametrize(
    "state", [{}, {"source": 3}, {"source": "", "seed": "x"}, {"source": "", "seed": True}, {"source": "", "x": 1}]
)
def test_a_malformed_state_is_named(state: dict[str, object]) -> None:
    with pytest.raises(SpecError, match=r"stack\.state"):
        StackSpec.environment("kitchen:Kitchen").wrap("contract", **state).build()


def test_it_is_data() -> None:
    env = contract(BLOCK_TAKE, make("kitchen:Kitchen"))
    spec = StackSpec.from_json(env.spec.to_json())
    with spec.build() as rebuilt:
        rebuilt.reset()
        assert rebuilt.step(take()).info == {"blocked": "hands off"}


def test_the_middle_of_an_episode_cannot_be_saved() -> None:
    assert contract(BLOCK_TAKE).capabilities.state == "episode_boundary"
