"""Candidates that must not get as far as a paid rollout, on a live world."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from envharness.components.stack_file import save_stack
from envharness.core.errors import ZygoteError
from envharness.core.policy import PolicySpec
from envharness.core.spec import MAX_DEPTH, StackSpec
from envharness.core.trace import Episode
from envharness.core.types import Action
from envharness.rigger.checks import check_dry_run, patiently
from envharness.rigger.config import RigConfig
from envharness.rigger.designers.base import Evidence
from envharness.rigger.free_checks import witnesses
from envharness.rigger.objectives import SuccessBand
from envharness.rigger.observe import view_task
from envharness.rigger.plan import TaskPlanner
from envharness.rigger.records import Candidate, TaskResult
from envharness.rigger.requests import Batch
from envharness.rigger.stacks import base_stacks
from envharness.rollouts.engine import Engine, make_engine
from envharness.rollouts.episode import run_episode
from rigger.build import CLEAR, config, mix
from rigger.halls import LAST, go

HEAD = "class _Contract(Contract):\n"
SLOW_WALK = """
    def filter_action(self, action, env_state):
        turn = env_state.extras["turn"] = env_state.extras.get("turn", 0) + 1
        return action if turn % 2 else Blocked(reason="Not so fast.")
"""


class Proposer:
    """Proposes what it was given, one after the other."""

    def __init__(self, *candidates: Candidate) -> None:
        self._candidates = candidates

    def propose(self, evidence: Evidence) -> Candidate | None:
        return self._candidates[len(evidence.rounds)] if len(evidence.rounds) < len(self._candidates) else None


def rigged(
    settings: RigConfig, *candidates: Candidate, stored_wins: tuple[tuple[Action, ...], ...] = ()
) -> tuple[TaskResult, list[Batch]]:
    """Run one task's plan to its end, without a store."""
    view = view_task("hall-0", base_stacks(settings, ["hall-0"])["hall-0"])
    view = replace(view, stored_wins=stored_wins)
    planner = TaskPlanner(
        view=view,
        config=settings,
        objective=SuccessBand(*settings.band),
        designer_id="test",
        designer=Proposer(*candidates),
    )
    batches: list[Batch] = []
    with make_engine() as engine:
        plan = planner.plan()
        try:
            batch = next(plan)
            while True:
                assert isinstance(batch, Batch)
                batches.append(batch)
                batch = plan.send(played(engine, batch))
        except StopIteration as end:
            return end.value, batches


def played(engine: Engine, batch: Batch) -> list[Episode]:
    episodes = {job.key: episode for job, episode in engine.run(batch.jobs)}
    return [episodes[job.key] for job in batch.jobs]


def contract(body: str) -> Candidate:
    return Candidate(contract_source=HEAD + body)


REFUSED = {
    "a syntax error": (contract("    def filter_action(self, action\n"), "compiles", "check_failed"),
    "no class": (Candidate(contract_source="x = 1\n"), "compiles", "check_failed"),
    "an empty candidate": (Candidate(), "changes_something", "check_failed"),
    "hooks that change nothing": (
        contract("    def filter_action(self, action, env_state):\n        return action\n"),
        "changes_something",
        "check_failed",
    ),
    "a hook that raises": (
        contract("    def filter_observation(self, observation, env_state):\n        return env_state.nowhere\n"),
        "dry_run",
        "check_failed",
    ),
    "a stage that cannot be replayed": (
        Candidate(in_env_actions=[go("walk back")]),
        "replays",
        "check_failed",
    ),
    "a stage that ends the episode": (Candidate(in_env_actions=[go("rest")]), "replays", "check_failed"),
    "a hook that plays for a policy that does nothing": (
        contract(
            "    def filter_action(self, action, env_state):\n"
            "        return Action(name='command', kwargs={'text': 'walk on'})\n"
        ),
        "no_op_fails",
        "verifier_drift",
    ),
    "a stage that has won already": (
        Candidate(in_env_actions=[go("walk on")] * LAST),
        "stop_fails",
        "verifier_drift",
    ),
    "a world without a way": (
        contract("    def filter_action(self, action, env_state):\n        return Blocked(reason='No.')\n"),
        "reference_solves",
        "unsolvable",
    ),
}


@pytest.mark.parametrize(("candidate", "check", "verdict"), REFUSED.values(), ids=REFUSED)
def test_a_candidate_that_fails_a_free_check_costs_no_rollout(candidate: Candidate, check: str, verdict: str) -> None:
    result, batches = rigged(config(check_retries=0, rounds=1), candidate)
    assert result.status == "rejected"
    [entry] = result.rounds
    failed = next(one for one in entry.checks if not one.passed)
    assert failed.id == check
    assert entry.verdict == verdict
    assert entry.measured is None
    assert entry.feedback.startswith(f"check {check} failed: ")
    assert [batch.phase for batch in batches if batch.paid] == ["rig/baseline"]


def test_a_sound_candidate_passes_all_checks_and_is_measured() -> None:
    result, _ = rigged(config(rounds=1), contract(SLOW_WALK))
    [entry] = result.rounds
    ids = ["compiles", "dry_run", "changes_something", "replays", "stop_fails", "no_op_fails", "reference_solves"]
    assert [check.id for check in entry.checks] == ids
    assert all(check.passed for check in entry.checks)
    assert entry.measured is not None
    assert entry.measured.complete


def test_a_round_tries_again_a_bounded_number_of_times() -> None:
    bad = contract("    def filter_action(self, action, env_state):\n        return action\n")
    result, _ = rigged(config(check_retries=2, rounds=2), bad, bad, contract(SLOW_WALK), bad, bad, bad, bad)
    assert [entry.number for entry in result.rounds][:3] == [1, 1, 1]
    assert result.rounds[2].measured is not None
    if result.status != "accepted":
        assert [entry.number for entry in result.rounds[3:]] == [2, 2, 2]


def test_known_wins_are_adapted_to_what_a_candidate_asks_for() -> None:
    win = (mix("1"), mix("2"), mix("3"))
    assert witnesses(Candidate(in_env_actions=[mix("1")]), win, []) == [(mix("2"), mix("3")), win]
    opening = Candidate(contract_source="x", parameters={"opens_with": [CLEAR.model_dump(mode="json")]})
    assert witnesses(opening, None, [win, win]) == [(CLEAR, *win), win]
    assert witnesses(Candidate(contract_source="x"), None, []) == []


def test_a_sandbox_server_that_fails_is_asked_again_and_then_believed() -> None:
    def flaky(failures: int) -> str:
        left = iter([ZygoteError("gone")] * failures)

        def work() -> str:
            error = next(left, None)
            if error is not None:
                raise error
            return "done"

        return patiently(work)

    assert flaky(0) == flaky(2) == "done"
    with pytest.raises(ZygoteError, match="gone"):
        flaky(3)


def test_a_stack_that_grew_too_high_is_a_failed_check_and_not_the_end_of_the_run(tmp_path: Path) -> None:
    tower = StackSpec.environment("rigger.halls:Halls", task="hall-0")
    for _ in range(MAX_DEPTH):
        tower = tower.wrap("stage", actions=[])
    save_stack(tower, tmp_path / "tower.json")
    settings = config(rounds=1, check_retries=0, stacks=str(tmp_path))
    result, _ = rigged(settings, Candidate(in_env_actions=[go("walk on")]))
    assert [check.passed for check in result.rounds[0].checks] == [True, True, False]
    assert "more than 64 components" in result.rounds[0].feedback


def test_a_state_that_no_hook_can_be_shown_fails_the_check_and_not_the_run() -> None:
    episode = run_episode(StackSpec.environment("toy24", task="easy-0000"), PolicySpec(id="random"))
    assert episode.start is not None
    episode.start.state = {"huge": 10**30}
    watching = contract("    def filter_observation(self, observation, env_state):\n        return observation\n")
    [failed] = check_dry_run(watching, [episode])
    assert (failed.id, failed.passed) == ("dry_run", False)
    assert "no hook can see it" in failed.detail
