from __future__ import annotations

import pytest

from envharness.core.trace import Episode, Exchange, Outcome
from envharness.core.types import Action, EnvResponse, Observation
from envharness.report.trajectory import PAGE_CHARACTERS, Caps, caps_for, choose_pair, comparison, trajectory
from envharness.store.episode_rows import EpisodeNote
from report.build_run import episode, step
from report.page_reader import Page


def shelf(*outcomes: str) -> dict[str, Episode]:
    """Episodes by key: w won, l lost, i invalid."""
    found: dict[str, Episode] = {}
    for index, outcome in enumerate(outcomes):
        played = episode("task", won=outcome == "w", index=index)
        if outcome == "i":
            played = played.model_copy(update={"outcome": Outcome(kind="invalid", reason="worker_died"), "start": None})
        found[str(index)] = played
    return found


def notes(outcomes: str) -> list[EpisodeNote]:
    """What the store notes of a batch: w won, l lost, i invalid."""
    kinds = {"w": "success", "l": "failure", "i": "invalid"}
    return [EpisodeNote(str(index), "a", "t", index, kinds[kind], "", 1, 0.0) for index, kind in enumerate(outcomes)]


@pytest.mark.parametrize(
    ("outcomes", "chosen"),
    [
        ("wwlw", [0, 2]),
        ("llw", [2, 0]),
        ("ww", [0, 1]),
        ("lll", [0, 1]),
        ("il", [1, 0]),
        ("iwl", [1, 2]),
        ("w", [0]),
        ("", []),
    ],
)
def test_a_win_and_a_loss_are_chosen_where_there_are_both(outcomes: str, chosen: list[int]) -> None:
    assert choose_pair(notes(outcomes)) == [str(index) for index in chosen]


def test_long_trajectories_keep_head_and_tail() -> None:
    played = episode("task", won=True, steps=[step(number, f"screen {number}.") for number in range(50)])
    text = Page(trajectory(played, Caps(head=3, tail=2)).source).text
    assert "45 turns cut" in text
    shown = [number for number in range(50) if f"screen {number}." in text]
    assert shown == [0, 1, 2, 48, 49]


def test_what_passed_through_unchanged_is_printed_once() -> None:
    text = Page(trajectory(episode("task", won=True, steps=[step(0, "the same")]), Caps()).source).text
    assert text.count("the same") == 1
    changed = Page(trajectory(episode("task", won=True, steps=[step(0, "shown", raw="answered")]), Caps()).source).text
    assert "shown" in changed
    assert "answered" in changed


def test_an_action_that_a_contract_rewrote_shows_on_both_sides() -> None:
    rewritten = Exchange(
        segment="1",
        action=Action(name="reset_numbers"),
        response=EnvResponse(observation=Observation(text="anew"), terminated=True),
    )
    played = episode("task", won=False, steps=[step(0, "8 3").model_copy(update={"raw": [rewritten]})])
    text = Page(trajectory(played, Caps()).source).text
    assert 'combine(left=8, right=0, operation="*")' in text
    assert "reached the environment reset_numbers() in segment 1 · terminated" in text


def test_an_invalid_rollout_without_a_start_is_shown() -> None:
    played = shelf("i")["0"].model_copy(update={"steps": [], "notes": ["dense reward: ZeroDivisionError"]})
    text = Page(trajectory(played, Caps()).source).text
    assert "invalid" in text
    assert "worker died" in text
    assert "dense reward: ZeroDivisionError" in text


def test_two_comparisons_on_a_page_do_not_share_their_switch() -> None:
    names = {
        attributes["name"]
        for identifier in ("task-1", "task-2")
        for name, attributes in Page(comparison(list(shelf("w", "l").values()), identifier, Caps()).source).elements
        if name == "input"
    }
    assert names == {"task-1-view", "task-2-view"}


def test_room_is_shared_among_the_tasks() -> None:
    assert caps_for(0) == caps_for(1) == caps_for(8) == Caps()
    assert caps_for(40) == Caps(head=24, tail=12, text=445)
    assert caps_for(200) == Caps(head=7, tail=3, text=283)
    assert caps_for(100_000) == Caps(head=4, tail=2, text=240)


@pytest.mark.parametrize("tasks", [1, 10, 50, 80, 200])
def test_trajectories_keep_to_the_room_of_a_page(tasks: int) -> None:
    caps = caps_for(tasks)
    long = "word " * 1_000
    steps = [step(number, long, raw=f"raw {long}", policy_text=long) for number in range(60)]
    played = [episode("task", won=won, steps=steps) for won in (True, False)]
    assert tasks * len(comparison(played, "task-0", caps).source) < 1.3 * PAGE_CHARACTERS
