from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from campaign.outcomes import outcome, sample
from envharness.campaign.figures import audit_of, curve_of, differences_of, estimates_of
from envharness.campaign.outcomes import TaskOutcome
from envharness.statistics.audit import audit
from envharness.statistics.intervals import wilson
from envharness.statistics.paired import mcnemar_test

GOOD, POOR = outcome(rollouts=10, fresh=True, probability=0.9), outcome(accepted=False, rollouts=30, fresh=False)
outcomes = st.builds(
    outcome,
    accepted=st.booleans(),
    rollouts=st.integers(5, 30),
    fresh=st.booleans(),
    probability=st.floats(0, 1),
)
runs = st.integers(1, 3).flatmap(
    lambda seeds: st.lists(st.lists(outcomes, min_size=seeds, max_size=seeds), min_size=2, max_size=8)
)


def test_shares_are_over_all_tasks_and_prices_count_the_failures() -> None:
    figures = estimates_of(sample([[GOOD], [GOOD], [POOR], [outcome(rollouts=20, fresh=False)]]), fresh=True)
    assert figures["in_band_counted"].value == 0.75
    assert figures["in_band_fresh"].value == 0.5
    assert figures["accepted_held"].value == pytest.approx(2 / 3)
    assert figures["rollouts"].value == 17.5
    assert figures["rollouts_per_accept"].value == pytest.approx(70 / 3)
    assert figures["rollouts_per_held"].value == 35.0
    assert figures["accepts_per_100"].value == pytest.approx(300 / 70)


def test_without_fresh_rollouts_nothing_is_said_about_what_held() -> None:
    figures = estimates_of(sample([[outcome()], [outcome()]]), fresh=False)
    assert not {"in_band_fresh", "in_band_expected", "accepted_held", "rollouts_per_held"} & figures.keys()
    assert all(point.fresh is None for point in curve_of(sample([[outcome()]]), 30, fresh=False))


def test_a_designer_that_gets_nothing_accepted_has_no_price_but_can_be_tested() -> None:
    nothing, all_of_it = sample([[POOR]] * 12), sample([[GOOD]] * 12)
    assert estimates_of(nothing, fresh=True)["rollouts_per_accept"].value is None
    found = {d.measure: d for d in differences_of("p", {"a": all_of_it, "random": nothing}, "random", fresh=True)}
    assert found["accepts_per_100"].difference.value == pytest.approx(10.0)
    assert found["accepts_per_100"].p == pytest.approx(2 / 2**12)
    assert (found["rollouts"].higher, found["rollouts"].lower) == (0, 12)


def test_the_curve_gives_credit_from_the_rollout_on_that_decided() -> None:
    found = curve_of(sample([[GOOD], [outcome(rollouts=20, fresh=False)], [POOR], [POOR]]), 30, fresh=True)
    assert [(point.budget, point.counted.value) for point in found] == [
        (5, 0.0),
        (10, 0.25),
        (15, 0.25),
        (20, 0.5),
        (25, 0.5),
        (30, 0.5),
    ]
    assert [point.fresh.value for point in found if point.fresh] == [0.0, *[0.25] * 5]


@settings(max_examples=30, deadline=None)
@given(runs)
def test_whoever_is_held_against_himself_differs_in_nothing(tasks: list[list[TaskOutcome]]) -> None:
    mine = sample(tasks, 100)
    for entry in differences_of("p", {"a": mine, "b": mine}, "b", fresh=True):
        assert (entry.difference.value, entry.difference.low, entry.difference.high) == (0.0, 0.0, 0.0)
        assert (entry.p, entry.higher, entry.lower) == (1.0, 0, 0)


def test_a_share_that_no_task_contradicts_is_not_certain() -> None:
    """Every bootstrap sample of equal tasks is the same; what ten tasks can say about 0 % is Wilson's interval."""
    nothing = estimates_of(sample([[POOR, POOR]] * 10), fresh=True)
    assert (nothing["accepted"].low, nothing["accepted"].high) == pytest.approx(wilson(0, 10))
    everything = estimates_of(sample([[GOOD, GOOD]] * 10), fresh=True)
    assert (everything["accepted_held"].low, everything["accepted_held"].high) == pytest.approx(wilson(10, 10))
    held_twice = estimates_of(sample([[GOOD]] * 2 + [[POOR]] * 8), fresh=True)["accepted_held"]
    assert (held_twice.low, held_twice.high) == pytest.approx(wilson(2, 2)), "of the accepted, of which there are two"
    assert nothing["accepted_held"].value is None
    assert nothing["rollouts"].low == nothing["rollouts"].high == 30.0


def test_the_audit_is_about_what_was_accepted_alone() -> None:
    """The rejected tasks' rates do not vouch for the accepted ones'; seeds of one task go together."""
    found = audit_of(sample([[GOOD, POOR]] * 8 + [[POOR, POOR]] * 4), (0.4, 0.6))
    alone = audit([(50, 100)] * 8, (0.4, 0.6))
    assert found
    assert alone
    assert found.share.value == pytest.approx(alone.share)
    assert found.attainable == alone.attainable
    assert audit_of(sample([[POOR]] * 3), (0.4, 0.6)) is None
    assert audit_of(sample([[outcome()]] * 3), (0.4, 0.6)) is None


@settings(max_examples=30, deadline=None)
@given(runs)
def test_every_share_lies_in_its_interval_and_every_curve_rises(tasks: list[list[TaskOutcome]]) -> None:
    mine = sample(tasks, 100)
    for entry in estimates_of(mine, fresh=True).values():
        if entry.low is not None and entry.high is not None:
            assert entry.low <= entry.high
    values = [point.counted.value or 0.0 for point in curve_of(mine, 30, fresh=True)]
    assert values == sorted(values)
    assert values[-1] == pytest.approx(estimates_of(mine, fresh=True)["in_band_counted"].value)


def test_with_one_seed_a_yes_or_no_is_mcnemars_test_and_with_several_it_is_not() -> None:
    better, worse = [[GOOD]] * 9 + [[POOR]] * 2, [[POOR]] * 9 + [[GOOD]] * 2
    one = {d.measure: d for d in differences_of("p", {"a": sample(better), "b": sample(worse)}, "b", fresh=True)}
    assert one["in_band_counted"].mcnemar == mcnemar_test(9, 2) == pytest.approx(one["in_band_counted"].p)
    assert one["rollouts"].mcnemar is None
    twice = {"a": sample([task * 2 for task in better]), "b": sample([task * 2 for task in worse])}
    several = {d.measure: d for d in differences_of("p", twice, "b", fresh=True)}
    assert several["in_band_counted"].mcnemar is None
    assert several["in_band_counted"].p == pytest.approx(mcnemar_test(9, 2)), "a second seed that agrees is no news"


def test_more_designers_make_a_single_finding_worth_less() -> None:
    good, poor = sample([[GOOD]] * 6 + [[POOR]] * 4), sample([[POOR]] * 10)
    found = differences_of("p", {"a": good, "b": poor, "random": poor}, "random", fresh=False)
    pair = {entry.designer: entry for entry in found if entry.measure == "in_band_counted"}
    assert pair["a"].p_adjusted == pytest.approx(2 * pair["a"].p)
    assert pair["b"].p_adjusted == 1.0
