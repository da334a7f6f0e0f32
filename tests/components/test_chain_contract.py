"""Contracts with real hooks inside a segment of a Chain and around one."""

from __future__ import annotations

from envharness.components.chain import Chain
from envharness.components.contract import Contract
from envharness.components.tap import tapped
from envharness.core.env import ActionableEnv
from environments import BACK, FORWARD, Corridor
from kitchen import Kitchen, put, take


def contract(inner: ActionableEnv, body: str) -> Contract:
    return Contract(inner, "class _Contract(Contract):\n" + body)


NOT_SO_FAST = """
    def modify_transition(self, action, response, env_state):
        if response.terminated and env_state.extras.setdefault("first", True):
            env_state.extras["first"] = False
            response.terminated = False
        return response
"""


def test_a_contract_inside_a_segment_may_take_a_termination_back_before_the_boundary() -> None:
    kitchen, corridor = Kitchen(resumable=True), Corridor(1)
    with Chain([contract(kitchen, NOT_SO_FAST), corridor]) as chain:
        chain.reset()
        chain.step(take())
        assert not chain.step(put("desk")).info.get("chain")
        assert corridor.resets == 0
        chain.step(take())
        assert chain.step(put("desk")).info["chain"] == {"segment": 0, "over": True, "active": 1}
        assert corridor.resets == 1


GIVE_UP = """
    def modify_transition(self, action, response, env_state):
        response.terminated = True
        return response
"""


def test_a_contract_inside_a_segment_may_end_it_and_the_verifier_judges() -> None:
    first, second = Corridor(2), Corridor(1)
    with Chain([contract(first, GIVE_UP), second]) as chain:
        chain.reset()
        assert chain.step(FORWARD).terminated
        assert second.resets == 0
        assert not chain.evaluate().success


BLOCK_BACK = """
    def filter_action(self, action, env_state):
        return Blocked(reason="no way back") if action.name == "back" else action
"""


def test_a_block_inside_a_segment_costs_a_step_of_the_budget() -> None:
    with Chain([contract(Corridor(2), BLOCK_BACK), Corridor(1)], max_steps=2) as chain:
        chain.reset()
        assert chain.step(BACK).info["blocked"] == "no way back"
        assert chain.step(BACK).truncated


TELL_WHERE = """
    def filter_observation(self, observation, env_state):
        position = env_state.chain
        return Observation(text=f"{position['segment'] + 1}/{position['segments']}: {observation.text}", data=observation.data)
"""


def test_a_contract_around_a_chain_reads_the_key_chain_and_filters_the_hand_off() -> None:
    with contract(Chain([Corridor(1), Corridor(2)]), TELL_WHERE) as env:
        assert env.reset().observation.text.startswith("1/2: You enter")
        shown = env.step(FORWARD).observation
        assert shown.text.startswith("2/2: The task has changed")
        assert env.observe() == shown


def test_taps_name_the_segment_and_the_chain_reports_its_changes() -> None:
    chain = Chain([contract(Corridor(1), BLOCK_BACK), Corridor(2)])
    with chain, tapped(chain) as (top, recorder):
        top.reset()
        recorder.take()
        top.step(FORWARD)
        taken = recorder.take()
        assert [exchange.segment for exchange in taken.exchanges] == ["0.0"]
        assert [start.segment for start in taken.starts] == ["0.1"]
        assert [(event.component, event.kind) for event in taken.events] == [("chain#1", "switched_segment")]
