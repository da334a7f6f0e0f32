from __future__ import annotations

import random

import pytest
from hypothesis import given
from hypothesis import settings as options
from hypothesis import strategies as st

from campaign.harden.suites import settings, task_of
from envharness.campaign.harden.config import KINDS, Kind
from envharness.campaign.harden.derive import derive
from envharness.campaign.harden.screen import ScreenField, without
from envharness.campaign.harden.suite import Case
from envharness.campaign.harden.unavailable import hiding
from envharness.core.canonical import canonical_json
from envharness.core.spec import ChainedNode, WrappedNode
from envharness.core.trace import Episode
from envharness.core.types import Observation
from envharness.rigger.checks import check_compiles, dry_run
from envharness.sandbox import open_session
from rigger.build import CLEAR, FINISH, episode, mix

WON = [mix("1"), mix("2", "shake"), FINISH]
OTHER = [CLEAR, mix("4"), CLEAR, FINISH]


def wins(shift: int = 0) -> list[Episode]:
    plans = [WON, WON, OTHER, WON]
    return [episode(plans[(index + shift) % 4], index=index, won=True) for index in range(4)]


def by_variant(kind: Kind, **fields: object) -> dict[str, list[Case]]:
    tasks = [task_of(wins(), name) for name in ("a", "b")]
    derived = derive(tasks, settings(variants=[kind], **fields))
    return {cases[0].variant.id: list(cases) for cases in derived.variants}


def test_every_tool_and_kind_of_call_in_use_is_taken_away_in_turn() -> None:
    found = by_variant("tools")
    assert list(found) == [
        "tools/mix",
        "tools/finish",
        "tools/mix.how=stir",
        "tools/mix.how=shake",
        "tools/clear",
    ]
    for cases in found.values():
        assert [case.task.task for case in cases] == ["a", "b"]
        counts = [dry_run(cases[0].candidate, one).blocked for one in cases[0].task.episodes]
        assert cases[0].avoids is not None
        assert counts == [sum(map(cases[0].avoids.matches, one)) for one in (WON, WON, OTHER, WON)]


def test_no_more_variants_than_asked_for_and_the_rest_is_counted() -> None:
    tasks = [task_of(wins(), "a")]
    derived = derive(tasks, settings(variants=["tools"], most=2))
    assert [cases[0].variant.id for cases in derived.variants] == ["tools/mix", "tools/finish"]
    assert derived.left_out == {"tools": 3}


def test_habits_are_those_whose_flaw_stands_out() -> None:
    found = by_variant("habits")
    assert "habits/opening" in found
    assert "habits/usual-way" in found
    assert "habits/repeating" not in found
    opening = found["habits/opening"][0].candidate
    assert [dry_run(opening, one).blocked for one in wins()] == [1, 1, 0, 1]


def test_staged_cases_start_on_the_way_of_a_win_and_off_it() -> None:
    found = by_variant("staged")
    assert {name: cases[0].candidate.in_env_actions for name, cases in found.items()} == {
        "staged/half-won": WON[:1],
        "staged/detour": OTHER[:1],
    }
    node = found["staged/half-won"][0].stack.stack
    assert isinstance(node, WrappedNode)
    assert node.component == "stage"


def test_each_task_is_chained_with_the_next() -> None:
    [cases] = by_variant("chained").values()
    assert [(case.task.task, case.partner and case.partner.task) for case in cases] == [("a", "b"), ("b", "a")]
    node = cases[0].stack.stack
    assert isinstance(node, ChainedNode)
    assert derive([task_of(wins())], settings(variants=["chained"])).variants == ()


@options(max_examples=8, deadline=None)
@given(st.randoms(use_true_random=False))
def test_the_same_rollouts_make_the_same_variants_whatever_the_order_of_the_configuration(
    chance: random.Random,
) -> None:
    kinds = chance.sample(KINDS, len(KINDS))
    tasks = [task_of(wins(shift), name) for shift, name in enumerate("ab")]

    def dumped(order: list[Kind]) -> str:
        derived = derive(tasks, settings(variants=order))
        cases = [case for cases in derived.variants for case in cases]
        return canonical_json([[case.name, case.stack.model_dump(mode="json")] for case in cases])

    assert dumped(kinds) == dumped(list(KINDS))


@pytest.mark.parametrize("kind", ["tools", "fields", "habits"])
def test_what_is_written_compiles(kind: Kind) -> None:
    for cases in by_variant(kind).values():
        assert check_compiles(cases[0].candidate).passed


def test_a_hidden_field_is_gone_from_text_and_data() -> None:
    labels = ["task", "choices"]
    text = "Welcome.\n\nTask: find it\n\nChoices:\n- a\n- b"
    screen = Observation(text=text, data={"message": text, "options": ["a", "b"], "task": "find it"})
    for field in (ScreenField("task", "task", ("task",)), ScreenField("options", "choices", ("options",))):
        assert field.label is not None
        shown = without(text, labels, field.label)
        with open_session(hiding(field, labels), seed=0) as session:
            found = session.filter_observation(screen, {})
        kept = {key: value for key, value in screen.data.items() if key not in field.keys}
        assert found == Observation(text=shown, data={**kept, "message": shown})
    with open_session(hiding(ScreenField("data options", None, ("options",)), labels), seed=0) as session:
        found = session.filter_observation(screen, {})
    assert found == Observation(text=text, data={"message": text, "task": "find it"})


def test_a_task_that_nobody_won_and_nobody_began_has_no_other_start() -> None:
    lost = [episode([FINISH], index=index, reason="ended") for index in range(3)]
    found = derive([task_of(lost)], settings(variants=["staged"])).variants
    assert found == ()
