"""Verifier drift and lost wins, each caused on purpose by a component or an environment built for it."""

from __future__ import annotations

from unittest.mock import ANY

import pytest

from envharness.core.policy import PolicySpec
from envharness.core.trace import Episode, GoalReading
from envharness.core.types import Observation
from envharness.rigger.config import EnvironmentConfig, RigConfig
from envharness.rigger.records import Candidate, TaskResult
from envharness.rigger.requests import Batch
from envharness.rigger.validity import AGREES, check_agreement, check_rollouts, drift, where_it_failed
from rigger.build import config, episode, mix, step
from rigger.halls import go
from rigger.judges import Judge
from rigger.test_checks import contract, rigged

ENDS_EARLY = """
    def modify_transition(self, action, response, env_state):
        return response.model_copy(update={"terminated": response.terminated or env_state.room == "room 4"})
"""
NO_WAY_PAST_TWO = """
    def filter_action(self, action, env_state):
        return Blocked(reason="The door is locked.") if env_state.room == "room 2" else action
"""
SLOWER = """
    def filter_observation(self, observation, env_state):
        return Observation(text=observation.text + " It is dark.", data=observation.data)
"""


def judged(judge: Judge, *candidates: Candidate, lazy: float = 0.0) -> tuple[TaskResult, list[Batch]]:
    settings: RigConfig = config(
        environment=EnvironmentConfig(id="rigger.judges:JudgedHalls", options={"judge": judge}),
        policy=PolicySpec(id="rigger.halls:Walker", options={"lazy": lazy}),
        rounds=1,
        check_retries=0,
    )
    return rigged(settings, *candidates)


def paid(batches: list[Batch]) -> list[str]:
    return [batch.phase for batch in batches if batch.paid]


def test_where_verdict_and_state_agree_the_check_passes_before_and_after_the_rollouts() -> None:
    result, _ = judged("sound", contract(SLOWER))
    [entry] = result.rounds
    found = [check for check in entry.checks if check.id == AGREES]
    assert [(check.passed, check.detail) for check in found] == [(True, "3 probes"), (True, "5 rollouts")]
    assert entry.verdict != "verifier_drift"


def test_a_contract_that_ends_the_episode_where_the_verifier_already_counts_it_is_drift() -> None:
    result, batches = judged("room", contract(ENDS_EARLY))
    [entry] = result.rounds
    assert entry.verdict == "verifier_drift"
    assert entry.feedback.startswith(
        "check verdict_agrees failed: known win 0 of 4 turns: the verifier calls it a succ"
    )
    assert '"rested":false' in entry.feedback
    assert paid(batches) == ["rig/baseline"]


def test_a_win_that_a_replay_spoils_is_drift_and_not_unsolvable() -> None:
    result, batches = judged("pedant", Candidate(in_env_actions=[go("walk on"), go("walk back")]))
    [entry] = result.rounds
    assert entry.verdict == "verifier_drift"
    assert "the verifier calls it a failure, but the goal is reached in the last state" in entry.feedback
    assert paid(batches) == ["rig/baseline"]


def test_a_flag_that_a_replay_sets_is_found_in_the_rollouts_where_the_probes_do_not_meet_it() -> None:
    # The probes neither rest nor lose after resting; a policy that gives up early does.
    result, _ = judged("lamp", Candidate(in_env_actions=[go("light lamp")]), lazy=0.5)
    [entry] = result.rounds
    assert [check.passed for check in entry.checks if check.id == AGREES] == [True, False]
    assert (entry.verdict, entry.decision) == ("verifier_drift", "reject")
    assert entry.measured is not None
    assert entry.feedback.startswith("check verdict_agrees failed: rollout ")
    assert result.status == "rejected"


def test_a_task_that_is_judged_wrongly_without_any_component_is_not_worked_on() -> None:
    result, batches = judged("generous", contract(SLOWER), lazy=1.0)
    assert result.status == "rejected"
    assert result.reason.startswith("check verdict_agrees failed without any component of this run: rollout 0 of 1 tu")
    assert result.rounds == []
    assert paid(batches) == ["rig/baseline"]


def test_an_unsolvable_world_says_where_which_known_win_was_refused() -> None:
    result, _ = judged("sound", contract(NO_WAY_PAST_TWO))
    [entry] = result.rounds
    assert entry.verdict == "unsolvable"
    assert 'known win 0: turn 2, command(text="walk on"): blocked: The door is locked. (5 times)' in entry.feedback


def test_a_stage_that_leads_elsewhere_each_time_fails_a_free_check() -> None:
    settings = config(environment=EnvironmentConfig(id="rigger.judges:RestlessHalls"), rounds=1, check_retries=0)
    result, batches = rigged(settings, Candidate(in_env_actions=[go("walk on")]))
    [entry] = result.rounds
    assert entry.verdict == "check_failed"
    assert entry.feedback.startswith("check one_start failed: action 0 of stage#0 led to one state in episode 0")
    assert paid(batches) == ["rig/baseline"]


def test_an_accepted_stage_is_held_to_the_start_that_its_rollouts_had() -> None:
    settings = config(rounds=1, band=(0.0, 1.0), sharpen=True, remeasure=2)
    result, batches = rigged(settings, Candidate(in_env_actions=[go("walk on")]))
    assert result.status == "accepted"
    seed = batches[0].jobs[0].env_seed
    with result.final_stack.build() as env:
        assert env.save_state()["fingerprints"] == {str(seed): [ANY]}
        env.reset(seed)
    assert {check.id: check.passed for check in result.rounds[0].checks}["one_start"]
    assert batches[-1].jobs[0].stack == result.final_stack


# --- the evidence ---------------------------------------------------------------------------------------------------


def read(reached: bool | None, *, won: bool) -> Episode:
    goal = None if reached is None else GoalReading(reached=reached, state=None if reached == won else {"n": 1})
    return episode([mix("1")], won=won).model_copy(update={"goal": goal})


@pytest.mark.parametrize("won", [True, False])
def test_only_a_contradiction_is_drift(won: bool) -> None:
    assert drift(read(None, won=won), "it") == drift(read(won, won=won), "it") == ""
    assert drift(read(not won, won=won), "it").endswith('in the last state {"n":1}')


def test_one_contradiction_among_many_fails_the_check_and_silence_makes_none() -> None:
    assert check_rollouts([read(None, won=True)] * 3) == []
    [check] = check_rollouts([read(True, won=True)] * 3 + [read(False, won=True)] * 2)
    assert not check.passed
    assert check.detail.endswith("(and 1 more rollout)")
    [check] = check_agreement([("a", read(None, won=True)), ("b", read(False, won=False))], "probe")
    assert (check.passed, check.detail) == (True, "1 probe")


def test_a_lost_win_says_what_was_refused_or_how_it_was_lost() -> None:
    tries = [step(0, mix("1")), *[step(0, mix("2"), refused="no such thing")] * 3, step(0, None, stopped=True)]
    assert where_it_failed(episode(tries)) == (
        'turn 1, mix(left="2", how="stir", right="2"): refused: no such thing (3 times)'
    )
    vain = step(0, mix("1"), info={"ineffective": True}, shown=Observation(text="Nothing."))
    assert where_it_failed(episode([vain])).endswith("no effect: Nothing. (1 time)")
    assert where_it_failed(episode([mix("1"), mix("2")])) == "stopped after 2 turns without a success"
    assert where_it_failed(episode(invalid="component_fault", detail="a hook\nraised")) == (
        "component_fault: a hook raised"
    )
