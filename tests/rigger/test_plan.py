"""The decisions of one task's plan, fed with made-up outcomes."""

from __future__ import annotations

from collections.abc import Callable, Iterator

from envharness.core.trace import Episode
from envharness.rigger.config import RigConfig
from envharness.rigger.designers.base import Designer, Evidence
from envharness.rigger.designers.identity import IdentityDesigner
from envharness.rigger.objectives import SuccessBand
from envharness.rigger.observe import view_task
from envharness.rigger.plan import TaskPlanner
from envharness.rigger.records import Candidate, TaskResult
from envharness.rigger.requests import Batch
from envharness.rigger.stacks import base_stacks
from rigger.build import config, episode, mix
from rigger.halls import go

ASKED: list[Evidence] = []
STEP = Candidate(in_env_actions=[go("walk on")], template="step")


class Stepper:
    """Proposes one step every time and keeps what it was shown."""

    def propose(self, evidence: Evidence) -> Candidate | None:
        ASKED.append(evidence)
        return STEP


Outcomes = Callable[[Batch], list[Episode]]


def follow(outcomes: Outcomes, settings: RigConfig, designer: Designer, name: str) -> tuple[TaskResult, list[Batch]]:
    view = view_task("hall-0", base_stacks(settings, ["hall-0"])["hall-0"])
    plan = TaskPlanner(view, settings, SuccessBand(), name, designer).plan()
    batches: list[Batch] = []
    try:
        batch = next(plan)
        while True:
            assert isinstance(batch, Batch)
            batches.append(batch)
            batch = plan.send(outcomes(batch))
    except StopIteration as end:
        return end.value, batches


def rates(*successes: int, probes: bool = True) -> Outcomes:
    """Paid batches win as often as `successes` say, one number a batch; of the probes only the last one wins."""
    left: Iterator[int] = iter(successes)

    def play(batch: Batch) -> list[Episode]:
        if not batch.paid:
            return [episode([mix("1")], index=i, won=probes and len(batch.jobs) == 1) for i in range(len(batch.jobs))]
        wins = next(left)
        return [episode([mix("1")], index=job.index, won=job.index < wins) for job in batch.jobs]

    return play


def rig_with(*successes: int, **fields: object) -> tuple[TaskResult, list[Batch]]:
    ASKED.clear()
    return follow(rates(*successes), config(**fields), Stepper(), "stepper")


def phases(batches: list[Batch]) -> list[str]:
    return [batch.phase for batch in batches if batch.paid]


def test_a_task_in_the_band_is_left_as_it_is() -> None:
    result, batches = rig_with(3)
    assert result.status == "in_band_already"
    assert result.final_stack == result.base_stack
    assert phases(batches) == ["rig/baseline"]
    assert ASKED == []


def test_sharpening_works_on_it_all_the_same() -> None:
    result, _ = rig_with(3, 2, sharpen=True)
    assert result.status == "accepted"
    assert ASKED[0].direction == "sharpen"


def test_refine_until_a_rate_is_in_the_band() -> None:
    result, batches = rig_with(5, 4, 0, 3)
    assert result.status == "accepted"
    assert result.accepted_round == 3
    assert [entry.verdict for entry in result.rounds] == ["too_easy", "too_hard", "in_band"]
    assert [entry.decision for entry in result.rounds] == ["refine", "refine", "accept"]
    assert result.final_stack == STEP.apply(result.base_stack)
    assert phases(batches) == ["rig/baseline", *(f"rig/stepper/round-{n}" for n in (1, 2, 3))]
    assert [len(evidence.rounds) for evidence in ASKED] == [0, 1, 2]
    assert "right type" in ASKED[1].rounds[0].feedback


def test_five_rounds_and_no_more() -> None:
    result, _ = rig_with(5, 5, 5, 5, 5, 5)
    assert result.status == "rejected"
    assert result.final_stack == result.base_stack
    assert [entry.decision for entry in result.rounds] == ["refine"] * 4 + ["reject"]


def test_every_rollout_of_a_run_has_a_policy_seed_of_its_own_and_all_share_the_world() -> None:
    _, batches = rig_with(5, 4, 0, 3, 0, 0, remeasure=7)
    paid = [job for batch in batches if batch.paid for job in batch.jobs]
    assert len(paid) == 4 * 5 + 2 * 7
    assert len({job.policy_seed for job in paid}) == len(paid)
    assert len({job.env_seed for batch in batches for job in batch.jobs}) == 1
    assert phases(batches)[-2:] == ["remeasure/before", "remeasure/stepper"]


def test_the_contract_seed_is_one_for_all_rollouts_of_a_candidate() -> None:
    _, batches = rig_with(5, 4, 3)
    for batch in batches:
        if batch.paid:
            assert len({job.stack.to_json() for job in batch.jobs}) == 1


def test_remeasuring_takes_no_part_in_the_decision() -> None:
    result, _ = rig_with(5, 3, 20, 0, remeasure=20)
    assert result.status == "accepted"
    assert result.before is not None
    assert result.remeasured is not None
    assert (result.before.success_rate, result.remeasured.success_rate) == (1.0, 0.0)


def test_a_task_left_as_it_is_is_remeasured_once() -> None:
    result, batches = rig_with(3, 9, remeasure=20)
    assert result.remeasured == result.before
    assert phases(batches) == ["rig/baseline", "remeasure/before"]


def test_an_incomplete_baseline_decides_nothing() -> None:
    def play(batch: Batch) -> list[Episode]:
        return [*rates(5)(batch)[:4], episode(index=4, invalid="policy_error", detail="503")]

    result, batches = follow(play, config(remeasure=3), Stepper(), "stepper")
    assert result.status == "invalid"
    assert result.reason == "baseline: 4 of 5 rollouts are valid (policy_error: 503)"
    assert phases(batches) == ["rig/baseline"]


def test_an_incomplete_round_is_lost_and_never_accepted() -> None:
    def play(batch: Batch) -> list[Episode]:
        if batch.phase.endswith("round-1"):
            return [*rates(2)(batch)[:4], episode(index=4, invalid="worker_died")]
        return rates(5)(batch)

    result, _ = follow(play, config(rounds=2), Stepper(), "stepper")
    assert [entry.verdict for entry in result.rounds] == ["incomplete", "no_movement"]
    assert result.status == "invalid"
    assert "1 round incomplete" in result.reason


def test_a_component_fault_voids_the_batch_and_goes_back_as_feedback() -> None:
    def play(batch: Batch) -> list[Episode]:
        if batch.phase.endswith("round-1"):
            return [
                *rates(3)(batch)[:4],
                episode(index=4, invalid="component_fault", detail="hook filter_action: hung"),
            ]
        return rates(3)(batch) if batch.phase.endswith("round-2") else rates(5)(batch)

    ASKED.clear()
    result, _ = follow(play, config(), Stepper(), "stepper")
    assert result.rounds[0].verdict == "component_fault"
    assert "the batch is void" in ASKED[1].rounds[0].feedback
    assert "hook filter_action: hung" in ASKED[1].rounds[0].feedback
    assert result.accepted_round == 2


def test_a_designer_without_ideas_ends_the_task() -> None:
    class Silent:
        def propose(self, evidence: Evidence) -> Candidate | None:
            return None

    result, _ = follow(rates(5), config(), Silent(), "silent")
    assert (result.status, result.reason) == ("rejected", "the designer has nothing more to try")


def test_the_null_pays_the_same_rounds_and_is_never_called_a_component() -> None:
    result, batches = follow(rates(5, 5, 4, 3), config(), IdentityDesigner(), "identity")
    assert result.status == "accepted"
    assert result.final_stack == result.base_stack
    assert phases(batches) == ["rig/baseline", *(f"rig/identity/round-{n}" for n in (1, 2, 3))]
    assert [job.policy_seed for job in batches[1].jobs] != [job.policy_seed for job in batches[0].jobs]


def test_reference_wins_reach_the_designer_only_where_the_run_allows_it() -> None:
    def wins(**fields: object) -> int:
        ASKED.clear()
        follow(rates(0, 3), config(**fields), Stepper(), "stepper")
        return len(ASKED[0].wins)

    assert wins() == 0
    assert wins(scaffold_from_reference=True) == 1


def test_a_check_that_the_machinery_lost_says_nothing_about_the_candidate() -> None:
    def play(batch: Batch) -> list[Episode]:
        if not batch.paid:
            return [episode(invalid="worker_died", detail="worker 1 ended") for _ in batch.jobs]
        return rates(5)(batch)

    result, batches = follow(play, config(check_retries=1, rounds=1), Stepper(), "stepper")
    assert phases(batches) == ["rig/baseline"]
    assert [entry.verdict for entry in result.rounds] == ["incomplete", "incomplete"]
    assert result.status == "invalid"
    assert result.rounds[0].feedback == "check machinery failed: worker_died: worker 1 ended"


def test_every_round_says_what_it_was_written_on() -> None:
    result, _ = rig_with(5, 4, 0, 3)
    texts = [entry.diagnosis.text if entry.diagnosis else "" for entry in result.rounds]
    assert [text[: len("The policy won 5 of 5")] for text in texts] == [
        "The policy won 5 of 5",
        "The policy won 4 of 5",
        "The policy won 0 of 5",
    ]
    assert result.diagnosis == result.rounds[0].diagnosis
