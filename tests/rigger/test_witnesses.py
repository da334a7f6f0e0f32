"""Wins of another run as known wins of this one: read from its folder, tried first, and then believed."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from envharness.core.errors import ConfigError
from envharness.core.policy import PolicySpec
from envharness.core.spec import StackSpec
from envharness.core.types import Action
from envharness.rigger.config import EnvironmentConfig, RigConfig
from envharness.rigger.loop import rig
from envharness.rigger.records import Candidate
from envharness.rigger.results import load_results
from envharness.rigger.stacks import base_stacks
from envharness.rigger.witnesses import MAX_STORED, stored_wins, witnesses_digest
from envharness.rollouts.engine import make_engine
from envharness.rollouts.job import RolloutJob
from envharness.store.database import RunStore
from rigger.build import config
from rigger.halls import LAST, go
from rigger.test_checks import contract, rigged
from rollouts.hostile import script

WIN = (*[go("walk on")] * LAST, go("rest"))
LOCKED = """
    def filter_action(self, action, env_state):
        return Blocked(reason="The door is locked.") if env_state.room == "room 2" else action
"""
SLOW = """
    def filter_action(self, action, env_state):
        turn = env_state.extras["turn"] = env_state.extras.get("turn", 0) + 1
        return action if turn % 2 else Blocked(reason="Not so fast.")
"""


def hopeless(**fields: Any) -> RigConfig:
    """A world without a reference, and a policy that always rests one room too early."""
    world = EnvironmentConfig(id="rigger.halls:Halls", options={"reference": False})
    tired = script([action.model_dump() for action in (*[go("walk on")] * (LAST - 1), go("rest"))])
    return config(environment=world, policy=tired, rounds=1, check_retries=0, **fields)


def checks(candidate: Candidate, *wins: tuple[Action, ...]) -> dict[str, tuple[bool, str]]:
    result, _ = rigged(hopeless(), candidate, stored_wins=wins)
    return {check.id: (check.passed, check.detail) for check in result.rounds[0].checks}


def test_a_stored_win_shows_that_a_candidate_can_be_won_or_where_it_cannot() -> None:
    assert "reference_solves" not in checks(contract(SLOW))
    assert checks(contract(SLOW), WIN)["reference_solves"] == (True, "another run's win 0 in 9 turns")
    passed, detail = checks(contract(LOCKED), WIN)["reference_solves"]
    assert not passed
    assert detail == 'another run\'s win 0: turn 2, command(text="walk on"): blocked: The door is locked. (5 times)'


def test_a_win_that_does_not_win_here_says_nothing_about_the_candidate() -> None:
    assert "reference_solves" not in checks(contract(LOCKED), WIN[:2])
    assert checks(contract(SLOW), WIN[:2], WIN)["reference_solves"][0]


def test_what_is_left_of_a_stored_win_behind_a_stage_and_what_opens_with_another_action_count_too() -> None:
    staged = Candidate(in_env_actions=[go("walk on"), go("walk on")])
    assert checks(staged, WIN)["reference_solves"] == (True, "another run's win 0 in 3 turns")
    asks = contract(
        "    def filter_action(self, action, env_state):\n"
        "        if action.kwargs.get('text') == 'walk back':\n"
        "            env_state.extras['asked'] = True\n"
        "        return action if env_state.extras.get('asked') else Blocked(reason='Ask first.')\n"
    )
    assert not checks(asks, WIN)["reference_solves"][0]
    opening = asks.model_copy(update={"parameters": {"opens_with": [go("walk back").model_dump(mode="json")]}})
    found = checks(opening, WIN)
    assert found["reference_solves"] == (True, "another run's win 0 in 6 turns")


# --- from a run folder ----------------------------------------------------------------------------------------------


def run_of(folder: Path, stack: StackSpec, *policies: PolicySpec, env_seed: int = 0) -> None:
    with RunStore.open(folder, config={"of": "a stronger policy"}, command="run") as store, make_engine() as engine:
        jobs = [
            RolloutJob(task="hall-0", stack=stack, policy=policy, env_seed=env_seed, policy_seed=index, index=index)
            for index, policy in enumerate(policies)
        ]
        for job, episode in engine.run(jobs):
            store.put_episode(job.key, "run", episode, job.model_dump(mode="json"))


STRONG = PolicySpec(id="rigger.halls:Walker")
WEAK = PolicySpec(id="rigger.halls:Walker", options={"lazy": 1.0})


def test_only_wins_on_the_very_stack_are_read_each_once(tmp_path: Path) -> None:
    stacks = base_stacks(hopeless(), ["hall-0"])
    run_of(tmp_path / "same", stacks["hall-0"], STRONG, WEAK, STRONG)
    assert stored_wins(tmp_path / "same", stacks) == {"hall-0": (WIN,)}
    run_of(tmp_path / "other", stacks["hall-0"].wrap("stage", actions=[go("walk on").model_dump()]), STRONG)
    run_of(tmp_path / "lost", stacks["hall-0"], WEAK)
    for folder in ("other", "lost"):
        with pytest.raises(ConfigError, match="holds no win of a task of this run on the stack"):
            stored_wins(tmp_path / folder, stacks)
    assert MAX_STORED >= 1


def test_the_digest_is_of_what_was_won_and_not_of_how_often(tmp_path: Path) -> None:
    stack = base_stacks(hopeless(), ["hall-0"])["hall-0"]
    run_of(tmp_path / "one", stack, STRONG)
    run_of(tmp_path / "two", stack, STRONG, WEAK, STRONG)
    run_of(tmp_path / "none", stack, WEAK)
    digests = [witnesses_digest(tmp_path / name) for name in ("one", "two", "none")]
    assert digests[0] == digests[1] != digests[2]


@pytest.mark.slow
def test_a_run_with_witnesses_rejects_what_cannot_be_won(tmp_path: Path) -> None:
    run_of(tmp_path / "strong", base_stacks(hopeless(), ["hall-0"])["hall-0"], STRONG, env_seed=99)
    chosen = hopeless(witnesses=str(tmp_path / "strong"), null=False)
    with RunStore.open(tmp_path / "run", config={}, command="rig") as store, make_engine() as engine:
        rig(chosen, store=store, engine=engine)
        [result] = load_results(store, "template")
        phases = {count.phase for count in store.phase_counts()}
    tried = [check for entry in result.rounds for check in entry.checks if check.id == "reference_solves"]
    assert tried
    assert all("another run's win" in check.detail for check in tried)
    assert "rig/witness" in phases
