"""Verdicts asked for again after the environment was really changed, by its own code."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any

import pytest

from envharness.core.spec import StackSpec
from envharness.core.trace import Episode
from envharness.rollouts.episode import play
from envharness.rollouts.job import RolloutJob
from envharness.rollouts.rescoring import Rescored, rescore
from rollouts.changing import CHANGES, KITCHEN, chain
from rollouts.hostile import job, script

CLOCK = frozenset({"clock"})
OPEN: dict[str, Any] = {"name": "drawer", "kwargs": {"state": "open"}}
WIN: list[Any] = [{"name": "take"}, {"name": "put", "kwargs": {"place": "desk"}}]
LOSE: list[Any] = [{"name": "take"}] * 3
UNTIDY = [OPEN, *WIN]
"""Wins with the drawer left open."""


@pytest.fixture
def change(monkeypatch: pytest.MonkeyPatch) -> Callable[[str], None]:
    def set_changes(names: str) -> None:
        monkeypatch.setenv(CHANGES, names)

    return set_changes


def played(actions: list[Any], stack: StackSpec = KITCHEN, **fields: Any) -> tuple[RolloutJob, Episode]:
    one = job(stack, script(actions)).model_copy(update=fields)
    return one, asyncio.run(play(one))


def rescored(one: RolloutJob, episode: Episode) -> Rescored:
    return rescore(one, episode, CLOCK)


def successes(found: Rescored) -> tuple[Any, Any]:
    was, now = ("none" if one is None else one["success"] for one in (found.was, found.now))
    return was, now


@pytest.mark.parametrize("states", [True, False])
@pytest.mark.parametrize(
    ("actions", "names", "verdict", "both", "retold"),
    [
        (UNTIDY, "", "same", (True, True), None),
        (UNTIDY, "strict", "changed", (True, False), None),
        (LOSE, "lenient", "same", (False, False), None),
        ([OPEN], "lenient", "changed", (False, True), None),
        (UNTIDY, "unending", "same", (True, True), "terminated"),
        (UNTIDY, "unending strict", "changed", (True, False), "terminated"),
        (UNTIDY, "jammed", "diverged", (True, True), None),
        (UNTIDY, "jammed lenient", "diverged", (True, True), None),
        ([OPEN, *LOSE], "jammed lenient", "diverged", (False, False), None),
        (UNTIDY, "gone", "unavailable", (True, "none"), None),
        (UNTIDY, "breaks", "unavailable", (True, "none"), None),
    ],
)
def test_a_change_of_the_environment_is_told_from_one_of_its_verifier(
    actions: list[Any],
    names: str,
    verdict: str,
    both: tuple[Any, Any],
    retold: str | None,
    states: bool,
    change: Callable[[str], None],
) -> None:
    one, episode = played(actions, record_states=states)
    change(names)
    found = rescored(one, episode)
    assert (found.verdict, successes(found)) == (verdict, both)
    assert (found.retold and found.retold.field) == retold
    assert bool(found.reason) == (verdict == "unavailable")
    if verdict == "diverged":
        assert found.divergence is not None
        assert (found.divergence.step, found.divergence.field) == (0, "refused")


@pytest.mark.parametrize(("names", "verdict"), [("words", "same"), ("words strict", "changed")])
def test_other_words_do_not_hide_a_verdict(names: str, verdict: str, change: Callable[[str], None]) -> None:
    one, episode = played(UNTIDY)
    change(names)
    found = rescored(one, episode)
    assert (found.verdict, found.divergence) == (verdict, None)
    assert found.retold is not None
    assert found.retold.field == "start.shown.text"


def test_without_recorded_states_other_data_counts_as_another_path_and_the_verdicts_are_told_all_the_same(
    change: Callable[[str], None],
) -> None:
    one, episode = played(UNTIDY, record_states=False)
    change("words strict")
    found = rescored(one, episode)
    assert (found.verdict, successes(found)) == ("diverged", (True, False))


NESTED = chain(chain(), KITCHEN)


@pytest.mark.parametrize("words", ["", " words"])
@pytest.mark.parametrize(
    ("stack", "actions", "before", "after", "both", "segment"),
    [
        # The first segment is not won any more, and nothing comes after it.
        (chain(), [*UNTIDY, *WIN], "", "strict", (True, False), "0.0"),
        # It is won now, and the chain goes on where it had ended.
        (chain(), UNTIDY, "strict", "", (False, False), "0.0"),
        # The last segment is judged where the path ends: no other path comes of it.
        (chain(), [*WIN, *UNTIDY], "", "strict", (True, False), ""),
        (
            chain(KITCHEN, KITCHEN, KITCHEN, router="branch_on_outcome"),
            [*UNTIDY, *WIN],
            "",
            "strict",
            (True, True),
            "0.0",
        ),
        (NESTED, [*UNTIDY, *WIN, *WIN], "", "strict", (True, False), "0.0.0"),
        (NESTED, [*WIN, *UNTIDY, *WIN], "", "strict", (True, False), "0.0.1"),
        # It is not even over any more, and would take the actions meant for the next one.
        (chain(), [*UNTIDY, *WIN], "", "strict unending", (True, False), "0.0"),
    ],
)
def test_a_changed_verdict_within_a_chain_is_one(
    stack: StackSpec,
    actions: list[Any],
    before: str,
    after: str,
    both: tuple[bool, bool],
    segment: str,
    words: str,
    change: Callable[[str], None],
) -> None:
    change(before)
    one, episode = played(actions, stack)
    assert rescored(one, episode).verdict == "same"
    change(after + words)
    found = rescored(one, episode)
    assert (found.verdict, successes(found), found.segment) == ("changed", both, segment)


@pytest.mark.parametrize("names", ["jammed", "jammed strict", "unending"])
def test_a_chain_that_goes_elsewhere_for_another_reason_diverges(names: str, change: Callable[[str], None]) -> None:
    one, episode = played([*UNTIDY, *WIN], chain())
    change(names)
    assert rescored(one, episode).verdict == "diverged"


def test_an_episode_without_a_verdict_has_none_to_compare() -> None:
    one, episode = played(WIN, StackSpec.environment("rollouts.hostile:Misbehaving", how="raise", when="evaluate"))
    assert rescored(one, episode).verdict == "invalid"
