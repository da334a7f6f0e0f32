from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from envharness.campaign.harden.matrix import matrix, shift_of
from envharness.campaign.harden.records import CaseResult, Pairs, Tally, Variant
from envharness.campaign.harden.tally import outcomes, outcomes_in_turn, paired, total
from envharness.core.trace import Episode
from rigger.build import CLEAR, FINISH, episode

VARIANT = Variant(id="tools/mix", kind="tools", what="mix is refused")
fates = st.lists(st.sampled_from(["won", "lost", "invalid"]), min_size=1, max_size=8)


def rollouts(found: list[str], reason: str = "stopped") -> list[Episode]:
    return [
        episode(
            [CLEAR, FINISH],
            index=index,
            won=fate == "won",
            invalid="worker_died" if fate == "invalid" else "",
            reason=reason,
        )
        for index, fate in enumerate(found)
    ]


@given(fates)
def test_a_tally_counts_every_rollout_once(found: list[str]) -> None:
    tally = total(outcomes(rollouts(found)))
    assert (tally.asked, tally.won) == (len(found), found.count("won"))
    assert tally.valid == len(found) - found.count("invalid")
    assert tally.reasons.get("stopped", 0) == found.count("lost")
    assert tally.steps == 2 * tally.valid


@given(st.lists(st.tuples(st.sampled_from(["won", "lost", "invalid"]), st.sampled_from(["won", "lost", "invalid"]))))
def test_two_tasks_in_turn_are_won_where_both_are(pairs: list[tuple[str, str]]) -> None:
    first, second = [one for one, _ in pairs], [other for _, other in pairs]
    found = outcomes_in_turn(rollouts(first, "out_of_steps"), rollouts(second))
    assert total(found).won == pairs.count(("won", "won"))
    # The second task is not needed where the first is lost.
    assert total(found).reasons.get("out_of_steps", 0) == first.count("lost")
    assert total(found).reasons.get("stopped", 0) == pairs.count(("won", "lost"))


@given(st.lists(st.tuples(st.sampled_from(["won", "lost", "invalid"]), st.sampled_from(["won", "lost", "invalid"]))))
def test_pairs_leave_out_what_the_machinery_lost(pairs: list[tuple[str, str]]) -> None:
    before, after = rollouts([one for one, _ in pairs]), rollouts([other for _, other in pairs])
    assert paired(outcomes(before), outcomes(after)) == Pairs(
        both=pairs.count(("won", "won")),
        lost=pairs.count(("won", "lost")),
        gained=pairs.count(("lost", "won")),
        neither=pairs.count(("lost", "lost")),
    )


def case(pairs: Pairs, variant: Variant = VARIANT, task: str = "t") -> CaseResult:
    before, after = pairs.both + pairs.lost, pairs.both + pairs.gained
    count = pairs.count
    return CaseResult(
        variant=variant.id,
        task=task,
        status="played",
        baseline=Tally(asked=count, valid=count, won=before, reasons={"stopped": count - before}),
        played=Tally(asked=count, valid=count, won=after, reasons={"out_of_steps": count - after}),
        pairs=pairs,
    )


def test_a_clear_loss_is_leaning_and_a_clear_win_is_not() -> None:
    def finding(pairs: Pairs) -> str:
        return matrix([(VARIANT, [case(pairs)])])[0].finding

    assert finding(Pairs(both=5, lost=15)) == "leans"
    assert finding(Pairs(both=5, gained=15)) == "gains"
    assert finding(Pairs(both=20)) == "unclear"
    assert finding(Pairs(both=15, lost=3, gained=2)) == "unclear"


def test_the_more_variants_are_tried_the_more_each_has_to_show() -> None:
    shaky = Pairs(both=10, lost=6)
    alone = matrix([(VARIANT, [case(shaky)])])
    many = [VARIANT.model_copy(update={"id": f"tools/{index}"}) for index in range(20)]
    among = matrix([(variant, [case(shaky, variant)]) for variant in many])
    assert alone[0].finding == "leans"
    assert {row.finding for row in among} == {"unclear"}


def test_only_tasks_that_were_played_count_in_the_rates() -> None:
    unsolvable = CaseResult(variant=VARIANT.id, task="u", status="unsolvable", baseline=Tally(asked=5, valid=5, won=5))
    row = matrix([(VARIANT, [case(Pairs(both=2, lost=2)), unsolvable])])[0]
    assert row.cases == {"played": 1, "unsolvable": 1}
    assert (row.baseline.success_rate, row.played.success_rate, row.drop) == (1.0, 0.5, 0.5)
    assert row.drop_interval[0] <= 0.5 <= row.drop_interval[1]
    unaffected = unsolvable.model_copy(update={"status": "unaffected"})
    row_with = matrix([(VARIANT, [case(Pairs(both=2, lost=2)), unsolvable, unaffected])])[0]
    assert row_with.played == row.suite
    assert (row_with.suite.won, row_with.suite.valid) == (7, 9)
    nothing = matrix([(VARIANT, [unsolvable])])[0]
    assert (nothing.finding, nothing.drop, nothing.p_value) == ("not_played", None, None)
    assert shift_of(row)[0] == ("out_of_steps", 0.0, 0.5)
