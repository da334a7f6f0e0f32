"""One variant of one task, on the real world of the halls: what is free of charge comes first."""

from __future__ import annotations

from dataclasses import replace

import pytest

from campaign.harden.suites import drive, played, settings, task_of
from envharness.campaign.harden.derive import derive
from envharness.campaign.harden.plan import CasePlanner
from envharness.campaign.harden.records import CaseResult
from envharness.campaign.harden.suite import Case, PlayedTask
from envharness.campaign.harden.unavailable import tool_cases
from envharness.core.trace import Outcome
from envharness.rigger.records import Candidate
from envharness.rigger.requests import Batch
from rigger.halls import go

pytestmark = pytest.mark.slow
CONFIG = settings(tasks=["hall-0", "hall-1"])


@pytest.fixture(scope="module")
def suite() -> list[PlayedTask]:
    return played(CONFIG)


def result_of(case: Case) -> tuple[CaseResult, list[Batch]]:
    return drive(CasePlanner(case, CONFIG).plan())


def variant(suite: list[PlayedTask], name: str) -> Case:
    cases = [cases[0] for cases in derive(suite, CONFIG).variants]
    return next(case for case in cases if case.variant.id == name)


def paid(batches: list[Batch]) -> int:
    return sum(len(batch.jobs) for batch in batches if batch.paid)


def test_without_walking_nobody_gets_there_so_nothing_is_paid(suite: list[PlayedTask]) -> None:
    result, batches = result_of(variant(suite, "tools/command.text=walk"))
    assert (result.status, result.verified) == ("unsolvable", False)
    assert paid(batches) == 0
    assert not result.winnable


def test_what_changes_nothing_is_not_played(suite: list[PlayedTask]) -> None:
    case = next(cases[0] for cases in tool_cases(suite) if cases[0].variant.id == "tools/command.text=walk")
    unused = case.candidate.contract_source.replace("'walk'", "'swim'")
    result, batches = result_of(replace(case, candidate=Candidate(contract_source=unused)))
    assert result.status == "unaffected"
    assert batches == []


def test_a_hook_that_fails_is_our_fault_and_no_loss(suite: list[PlayedTask]) -> None:
    case = variant(suite, "tools/command.text=walk")
    broken = case.candidate.contract_source.replace("Blocked(reason=REASON)", "1 / 0")
    result, batches = result_of(replace(case, candidate=Candidate(contract_source=broken)))
    assert result.status == "invalid"
    assert "ZeroDivisionError" in result.detail
    assert batches == []


def test_a_start_half_way_is_played_with_the_seeds_of_the_baseline(suite: list[PlayedTask]) -> None:
    result, batches = result_of(variant(suite, "staged/half-won"))
    assert (result.status, result.verified, result.winnable) == ("played", True, True)
    rollouts = [job for batch in batches if batch.paid for job in batch.jobs]
    assert [job.policy_seed for job in rollouts] == [episode.seed for episode in suite[0].episodes]
    assert result.pairs.count == result.played.valid == CONFIG.rollouts
    before, after = result.baseline.mean_steps, result.played.mean_steps
    assert before is not None
    assert after is not None
    assert after < before


def test_a_start_that_cannot_be_replayed_is_not_applicable(suite: list[PlayedTask]) -> None:
    case = variant(suite, "staged/half-won")
    result, batches = result_of(replace(case, candidate=Candidate(in_env_actions=[go("walk back")])))
    assert result.status == "not_applicable"
    assert paid(batches) == 0


def test_a_chain_may_use_what_two_episodes_may_and_compares_with_both(suite: list[PlayedTask]) -> None:
    result, batches = result_of(variant(suite, "chained/next-task"))
    assert (result.status, result.verified) == ("played", True)
    assert {job.limits.max_steps for batch in batches for job in batch.jobs} == {2 * CONFIG.limits.max_steps}
    both = [one.success and other.success for one, other in zip(suite[0].episodes, suite[1].episodes, strict=True)]
    assert result.baseline.won == sum(both)


def test_a_task_whose_rollouts_were_all_lost_by_the_machinery_is_not_compared(suite: list[PlayedTask]) -> None:
    lost = Outcome(kind="invalid", reason="worker_died")
    gone = tuple(episode.model_copy(update={"outcome": lost}) for episode in suite[0].episodes)
    case = variant(suite, "tools/command.text=walk")
    result, batches = result_of(replace(case, task=replace(case.task, episodes=gone)))
    assert result.status == "invalid"
    assert batches == []


def test_a_win_that_another_variant_brought_to_light_is_a_witness(suite: list[PlayedTask]) -> None:
    lost = Outcome(kind="failure", reason="stopped")
    never = tuple(episode.model_copy(update={"outcome": lost}) for episode in suite[0].episodes)
    case = replace(variant(suite, "staged/half-won"), task=task_of(never, "hall-0"))
    assert result_of(case)[0].verified is None
    way = (*[go("walk on")] * 4, go("rest"))
    result, _ = drive(CasePlanner(case, CONFIG, further_wins={"hall-0": (way,)}).plan())
    assert result.verified is True
