"""The gate and the plan around it, fed with made-up outcomes: it ends, keeps to the cap, never accepts unsure."""

from __future__ import annotations

import random
from dataclasses import dataclass

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from envharness.core.errors import ConfigError
from envharness.core.trace import Episode
from envharness.rigger.config import AcceptanceConfig
from envharness.rigger.designers.base import Designer, Evidence
from envharness.rigger.designers.dosing import GRID, best_dose
from envharness.rigger.doses import belief_of, dose_of
from envharness.rigger.gate import Gate, require_band
from envharness.rigger.objectives import SuccessBand
from envharness.rigger.records import Candidate, Decision, Measurement, Round
from envharness.rigger.requests import Batch
from envharness.rigger.templates.base import Template
from envharness.statistics.rules import Ruling
from rigger.build import config, episode, measured, mix
from rigger.halls import go
from rigger.test_plan import STEP, Outcomes, Stepper, follow, rates


def _build(*_: object) -> Candidate:
    return STEP


TYPES = tuple(Template(id=name, summary="", direction="harden", flaws=(), build=_build) for name in ("walk", "rest"))
PLAIN = STEP.model_copy(update={"template": ""})


class Doser:
    """Steers by the curves, between two types of component that are made of nothing."""

    def steers(self, acceptance: AcceptanceConfig) -> bool:
        return acceptance.rule == "dose"

    def propose(self, evidence: Evidence) -> Candidate | None:
        best = best_dose(TYPES, evidence)
        if best is None:
            return None
        template, magnitude = best
        return Candidate(in_env_actions=[go("walk on")], template=template.id, magnitude=magnitude)


def a_round(successes: int, candidate: Candidate = PLAIN, *, of: int = 5, verdict: str = "too_easy") -> Round:
    decision: Decision = "refine"
    return Round(number=1, candidate=candidate, measured=measured(successes, of), decision=decision, verdict=verdict)


def gate(rule: str, **fields: object) -> Gate:
    acceptance = AcceptanceConfig.model_validate({"rule": rule, **fields})
    return Gate(config(acceptance=acceptance), SuccessBand(), measured(5), "harden")


def test_the_posterior_accepts_drops_or_plays_on() -> None:
    judge = gate("posterior").judge
    assert judge([], PLAIN, measured(3)).ruling is Ruling.MORE
    assert judge([], PLAIN, measured(50, 100)).ruling is Ruling.ACCEPT
    dropped = judge([], PLAIN, measured(5))
    assert (dropped.ruling, dropped.verdict.name) == (Ruling.REJECT, "no_movement")
    assert judge([], PLAIN, measured(4, 20)).verdict.name == "too_hard"


def test_what_looks_right_and_is_not_sure_is_called_undecided() -> None:
    judged = gate("posterior", cap=10).judge([], PLAIN, measured(3))
    assert (judged.ruling, judged.verdict.name) == (Ruling.REJECT, "undecided")
    assert judged.belief is not None
    assert judged.belief.low < 0.5 < judged.belief.high


def test_trying_the_same_candidate_again_is_no_new_chance_of_luck() -> None:
    earlier = [a_round(48, of=60)]
    fresh = gate("posterior").judge([], PLAIN, measured(3))
    again = gate("posterior").judge(earlier, PLAIN, measured(3))
    other = gate("posterior").judge([a_round(48, STEP, of=60)], PLAIN, measured(3))
    assert again.belief is not None
    assert again.belief.rollouts == 65
    assert again.ruling is Ruling.REJECT
    assert fresh == other


@pytest.mark.parametrize(
    "spoilt", [a_round(4, verdict="component_fault"), a_round(4).model_copy(update={"measured": measured(4, asked=6)})]
)
def test_a_void_or_incomplete_round_is_no_evidence(spoilt: Round) -> None:
    assert gate("posterior").judge([spoilt], PLAIN, measured(3)) == gate("posterior").judge([], PLAIN, measured(3))


def test_under_dose_other_magnitudes_of_the_type_teach() -> None:
    def at(magnitude: float) -> Candidate:
        return PLAIN.model_copy(update={"template": "walk", "magnitude": magnitude})

    rounds = [a_round(20, at(0.4), of=20), a_round(0, at(0.6), of=20)]
    judge = gate("dose").judge
    alone, taught = judge([], at(0.5), measured(3)).belief, judge(rounds, at(0.5), measured(3)).belief
    assert alone is not None
    assert taught is not None
    assert taught.rollouts == 5 + 45
    assert taught.probability != alone.probability
    curve = belief_of((0.4, 0.6), "harden", measured(5), [*rounds, a_round(3, at(0.5))])
    dose = dose_of(at(0.5))
    assert dose is not None
    assert taught.probability == curve.mass(dose)


def test_a_candidate_without_a_magnitude_is_judged_by_its_own_rollouts() -> None:
    assert gate("dose").judge([], PLAIN, measured(3)) == gate("posterior").judge([], PLAIN, measured(3))


def test_the_cap_counts_the_baseline_and_every_round() -> None:
    narrow = gate("posterior", cap=17)
    assert narrow.batch_size([], 0) == 5
    assert narrow.batch_size([a_round(4), a_round(4)], 0) == 2
    assert narrow.batch_size([a_round(4)], 7) == 0
    whole = gate("empirical", cap=14)
    assert whole.batch_size([], 0) == 5
    assert whole.batch_size([a_round(4)], 0) == 0


def test_dose_finding_needs_a_band_of_rates() -> None:
    @dataclass(frozen=True)
    class Steps(SuccessBand):
        @property
        def rate_band(self) -> None:  # pyright: ignore[reportIncompatibleMethodOverride]
            return None

    require_band(AcceptanceConfig(rule="posterior"), Steps())
    with pytest.raises(ConfigError, match=r"acceptance.rule: 'dose' needs"):
        require_band(AcceptanceConfig(rule="dose"), Steps())


def test_an_undecided_candidate_is_played_on_in_its_round() -> None:
    sure = AcceptanceConfig(rule="posterior", threshold=0.5)
    won = iter((5, 4, 2, 2, 2))

    def play(batch: Batch) -> list[Episode]:
        if not batch.paid:
            return rates()(batch)
        wins, first = next(won), batch.jobs[0].index
        return [episode([mix("1")], index=job.index, won=job.index - first < wins) for job in batch.jobs]

    result, batches = follow(play, config(acceptance=sure, rounds=1), Stepper(), "stepper")
    paid = [batch for batch in batches if batch.paid]
    assert [batch.phase for batch in paid[1:]] == ["rig/stepper/round-1"] * (len(paid) - 1)
    assert [job.index for batch in paid[1:] for job in batch.jobs] == list(range(5 * (len(paid) - 1)))
    assert (result.status, len(result.rounds)) == ("accepted", 1)
    assert len(paid) > 2


def test_a_dose_that_is_returned_to_is_the_same_world_with_fresh_seeds() -> None:
    finding = AcceptanceConfig(rule="dose", cap=60)
    result, batches = follow(chance(3), config(acceptance=finding), Doser(), "doser")
    paid = [batch for batch in batches if batch.paid]
    stacks = {
        (entry.candidate.template, entry.candidate.magnitude): entry.candidate.apply(result.base_stack)
        for entry in result.rounds
    }
    assert len(result.rounds) > len(stacks)
    seeds = [job.policy_seed for batch in paid for job in batch.jobs]
    assert len(set(seeds)) == len(seeds)
    unpaid = [batch for batch in batches if not batch.paid]
    assert len(unpaid) < 6 * len(result.rounds)


def chance(seed: int, *, machinery: float = 0.0, faults: float = 0.0) -> Outcomes:
    """Outcomes by chance, at another rate each batch; probes pass, but for those that the machinery loses."""

    def play(batch: Batch) -> list[Episode]:
        dice = random.Random(f"{seed} {batch.phase} {batch.jobs[0].key}")
        rate = dice.random()
        played: list[Episode] = []
        for number, job in enumerate(batch.jobs):
            index = job.index if batch.paid else number
            won = dice.random() < rate if batch.paid else len(batch.jobs) == 1
            bad = "worker_died" if dice.random() < machinery else ""
            if batch.paid and "round" in batch.phase and dice.random() < faults:
                bad = "component_fault"
            played.append(episode([mix("1")], index=index, won=won, invalid=bad))
        return played

    return play


@settings(max_examples=25, deadline=None)
@given(
    seed=st.integers(0, 10_000),
    rule=st.sampled_from(["posterior", "dose"]),
    threshold=st.sampled_from([0.4, 0.6, 0.9]),
    cap=st.integers(5, 45),
    batch=st.integers(1, 7),
    machinery=st.sampled_from([0.0, 0.02, 0.3]),
    faults=st.sampled_from([0.0, 0.05]),
    steering=st.booleans(),
)
def test_whatever_comes_a_plan_ends_keeps_to_the_cap_and_accepts_only_when_sure(
    seed: int, rule: str, threshold: float, cap: int, batch: int, machinery: float, faults: float, *, steering: bool
) -> None:
    rule_of = AcceptanceConfig.model_validate({"rule": rule, "threshold": threshold, "cap": cap, "batch": batch})
    how = config(acceptance=rule_of)
    designer: Designer = Doser() if steering else Stepper()

    def once() -> tuple[object, list[Batch]]:
        return follow(chance(seed, machinery=machinery, faults=faults), how, designer, "d")

    result, batches = follow(chance(seed, machinery=machinery, faults=faults), how, designer, "d")
    jobs = [job for played in batches if played.paid for job in played.jobs]
    assert len(jobs) <= cap
    assert len({job.policy_seed for job in jobs}) == len(jobs)
    for entry in result.rounds:
        assert entry.candidate.magnitude is None or entry.candidate.magnitude in GRID
    if result.status == "accepted":
        accepted = next(entry for entry in result.rounds if entry.decision == "accept")
        assert accepted.belief is not None
        assert accepted.belief.probability >= threshold
        assert isinstance(accepted.measured, Measurement)
        assert accepted.measured.complete
        assert accepted.verdict == "in_band"
    assert once() == (result, batches)
