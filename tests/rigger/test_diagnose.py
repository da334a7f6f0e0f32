from __future__ import annotations

import pytest

from envharness.core.trace import Episode
from envharness.core.types import Observation
from envharness.rigger.diagnose import diagnose
from envharness.rigger.flaws import FLAWS
from envharness.rigger.measurement import measure
from envharness.rigger.records import Diagnosis, Direction
from rigger.build import CLEAR, FINISH, TOOLS, episode, mix, step


def diagnosed(episodes: list[Episode], direction: Direction = "scaffold") -> Diagnosis:
    return diagnose(episodes, TOOLS, measure(episodes, ["k"] * len(episodes)), direction)


def test_a_call_repeated_in_vain_is_named_with_its_steps() -> None:
    vain = step(0, mix("7"), info={"ineffective": True})
    found = diagnosed([episode([mix("1"), vain, vain, vain], index=index, reason="out_of_steps") for index in range(3)])
    assert found.scores["repeats_actions"] == 1.0
    assert found.scores["runs_out_of_steps"] == 1.0
    repeats = next(flaw for flaw in FLAWS if flaw.name == "repeats_actions")
    evidence = repeats.measure([episode([mix("1"), vain, vain], index=2)], TOOLS).evidence
    assert evidence == ['rollout 2, steps 1-2: mix(left="7", how="stir", right="2") again']


@pytest.mark.parametrize(
    ("flaw", "weak", "strong"),
    [
        ("leans_on_action", [mix("1", "stir"), mix("2", "shake")], [mix("1"), mix("2"), mix("3"), mix("4", "shake")]),
        ("stops_early", [mix("1")] * 2, [mix("1"), FINISH]),
        ("ignores_refusals", [mix("1"), mix("2")], [mix("1"), step(0, mix("9"), refused="there is no 9")]),
        ("neglects_tool", [mix("1"), CLEAR, FINISH], [mix("1"), FINISH]),
        (
            "revisits_states",
            [mix("1"), mix("2")],
            [step(0, mix("1"), state={"items": ["a"]}), step(0, CLEAR, state={"items": []})],
        ),
    ],
)
def test_each_flaw_tells_the_afflicted_from_the_sound(flaw: str, weak: list[object], strong: list[object]) -> None:
    def score(actions: list[object], reason: str) -> float:
        return diagnosed([episode(actions, index=i, reason=reason) for i in range(3)]).scores[flaw]  # pyright: ignore[reportArgumentType]  actions or steps

    reasons = ("out_of_steps", "stopped") if flaw == "stops_early" else ("stopped", "stopped")
    assert score(strong, reasons[1]) > score(weak, reasons[0])


def test_one_plan_and_one_way_to_win() -> None:
    same = [episode([mix("1"), mix("2")], index=index, won=True) for index in range(5)]
    found = diagnosed(same, "harden")
    assert found.scores["fixed_opening"] == found.scores["one_path"] == 1.0
    other = [episode([mix(str(index)), mix("2")], index=index, won=True) for index in range(5)]
    assert diagnosed(other, "harden").scores["one_path"] == diagnosed(other, "harden").scores["fixed_opening"] == 0.0


def test_reading_only_the_start_of_long_texts() -> None:
    long = " ".join(f"item{number:03d}" for number in range(100))
    shown = Observation(text=long)
    early = episode([step(0, CLEAR, shown=shown), mix("item003"), step(0, CLEAR, shown=shown), mix("item001")])
    late = episode([step(0, CLEAR, shown=shown), mix("item093"), step(0, CLEAR, shown=shown), mix("item099")])
    assert diagnosed([early]).scores["reads_only_the_start"] == 1.0
    assert diagnosed([late]).scores["reads_only_the_start"] == 0.0


def test_nothing_stands_out_where_nothing_does() -> None:
    plain = [episode([mix(str(i), "stir"), mix("5", "shake"), CLEAR, FINISH], index=i, won=True) for i in range(4)]
    found = diagnosed(plain, "harden")
    assert found.scores["repeats_actions"] == 0.0
    assert "won 4 of 4" in found.text


def test_losses_are_explained_by_losing_flaws_first() -> None:
    episodes = [episode([mix("1"), FINISH], index=index) for index in range(5)]
    assert diagnosed(episodes, "scaffold").flaw == "stops_early"
    assert diagnosed(episodes, "harden").flaw != "stops_early"


def test_every_flaw_bears_an_empty_trace() -> None:
    found = diagnosed([episode([], index=index) for index in range(2)])
    assert all(0.0 <= score <= 1.0 for score in found.scores.values())
    assert set(found.scores) == {flaw.name for flaw in FLAWS}
