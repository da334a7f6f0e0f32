from __future__ import annotations

import asyncio
from collections.abc import Callable
from fractions import Fraction

import pytest

from envharness.bridges.toy24 import Toy24
from envharness.bridges.toy24.arithmetic import Line, Move, hand_of
from envharness.bridges.toy24.reading import Hint, read
from envharness.bridges.toy24.solver import SolverPolicy
from envharness.bridges.toy24.thinking import salience
from envharness.bridges.toy24.weaknesses import WEAKNESSES, WITHOUT_TEMPLATE, Weaknesses
from envharness.core.errors import ConfigError
from envharness.core.policy import Decision, PolicySpec, Turn
from envharness.core.types import Action, EnvResponse, Observation

NONE: dict[str, float] = dict.fromkeys(WEAKNESSES, 0.0)
TOOLS = tuple(Toy24().tool_schemas())
Filter = Callable[[int, Action], str | None]
"""From the number of a combine call (from 1) and the call to why it fails, or None."""


def screen(numbers: str, message: str = "A new deal.", moves: str = "none", extra: str = "") -> str:
    count = len(numbers.split(","))
    return (
        f"{message}\nTarget: 24\nNumbers left ({count}): {numbers}\nMoves made: {moves}\nSteps left: 9\n"
        f"Use every number exactly once: combine until only the target is left.{extra}"
    )


def answers(screens: list[str], seed: int = 0, **weaknesses: float) -> list[Decision]:
    """What a policy does when it is shown one screen after the other, whatever it does."""
    policy = SolverPolicy(seed, **{**NONE, **weaknesses})

    async def go() -> list[Decision]:
        turns = [Turn(observation=Observation(text=text), tools=TOOLS, step=step) for step, text in enumerate(screens)]
        return [await policy.act(turn) for turn in turns]

    return asyncio.run(go())


def says(decision: Decision) -> str:
    if decision.action is None:
        return "nothing"
    return " ".join([decision.action.name, *map(str, decision.action.kwargs.values())])


def share(wanted: str, screens: list[str], seeds: int = 200, **weaknesses: float) -> float:
    """How often the last answer is `wanted`."""
    return sum(says(answers(screens, seed, **weaknesses)[-1]) == wanted for seed in range(seeds)) / seeds


def play(task: str, seed: int, fails: Filter | None = None, **weaknesses: float) -> bool:
    """One episode, with calls failing where `fails` says so."""
    env = Toy24(task)
    policy = SolverPolicy(seed, **weaknesses)

    async def go() -> None:
        shown = env.reset(0).observation
        calls = 0
        for step in range(30):
            action = (await policy.act(Turn(observation=shown, tools=TOOLS, step=step))).action
            assert action is not None
            calls += action.name == "combine"
            why = fails(calls, action) if fails and action.name == "combine" else None
            if why is not None:
                shown = Observation(text=f"{why}\n\n{env.observe().text}")
                continue
            response: EnvResponse = env.step(action)
            shown = response.observation
            if response.terminated or response.truncated:
                break

    asyncio.run(go())
    return env.evaluate().success


def success_rate(task: str, fails: Filter | None = None, seeds: int = 20, **weaknesses: float) -> float:
    return sum(play(task, seed, fails, **weaknesses) for seed in range(seeds)) / seeds


# --- what a rigging run relies on -----------------------------------------------------------------------------------


def test_by_default_most_puzzles_are_won_always_or_never() -> None:
    tasks = [
        f"{level}-{index:04d}" for level, count in (("easy", 5), ("medium", 5), ("hard", 10)) for index in range(count)
    ]
    rates = [success_rate(task) for task in tasks]
    assert sum(rate >= 0.8 for rate in rates) >= 10
    assert sum(rate <= 0.2 for rate in rates) >= 4
    assert sum(0.4 <= rate <= 0.6 for rate in rates) <= 2


def test_failing_calls_lower_the_success_rate_by_degrees() -> None:
    tasks = ["easy-0001", "easy-0002", "medium-0004", "medium-0006"]
    rates: list[float] = []
    for failing in (0, 2, 4, 8):

        def fails(calls: int, action: Action, failing: int = failing) -> str | None:
            del action
            return "Nothing happens." if calls <= failing else None

        rates.append(sum(success_rate(task, fails) for task in tasks) / len(tasks))
    assert rates[0] > 0.95
    assert rates[0] > rates[1] > rates[2] > rates[3]
    assert 0.4 < rates[1] < 0.9
    assert rates[3] < 0.25


def test_refusing_some_calls_for_good_lowers_it_less_than_refusing_most() -> None:
    tasks = ["easy-0000", "easy-0001", "easy-0002", "easy-0004"]

    def refusing(operations: str) -> Filter:
        return lambda _, action: "Blocked." if str(action.kwargs["operation"]) in operations else None

    few, many = (
        sum(success_rate(task, refusing(operations)) for task in tasks) / len(tasks) for operations in ("/", "*+-")
    )
    assert few > 0.9
    assert many == 0.0


def test_the_same_seed_on_the_same_screens_answers_the_same_and_others_differ() -> None:
    screens = [screen("1, 2, 7, 16"), screen("1, 2, 7, 16", "Nothing happens.")]
    assert answers(screens, 5, generalises=0.5) == answers(screens, 5, generalises=0.5)
    assert len({says(answers(screens, seed)[0]) for seed in range(20)}) > 1


def test_without_weaknesses_it_wins_hard_puzzles() -> None:
    assert success_rate("hard-0002", None, 5, **NONE) == 1.0
    assert success_rate("hard-0003", None, 5, **NONE) == 1.0


# --- one weakness at a time -----------------------------------------------------------------------------------------


def line(*moves: str) -> Line:
    parts = [move.split() for move in moves]
    return tuple(Move(Fraction(left), operation, Fraction(right)) for left, operation, right in parts)  # pyright: ignore[reportArgumentType]  the texts below are operations


@pytest.mark.parametrize(
    ("weakness", "overlooked", "seen"),
    [
        ("favours", line("12 + 6", "18 + 4", "22 + 2"), line("12 * 6", "72 / 3", "24 * 1")),
        ("avoids_division", line("12 / 6", "4 * 3", "12 * 2"), line("12 - 6", "4 * 3", "12 * 2")),
        ("shallow", line("12 + 6", "4 * 3"), line("12 * 2")),
        ("fears_fractions", line("3 / 8", "12 * 8"), line("8 - 3", "12 * 8")),
        ("anchors_on_largest", line("3 * 2", "6 * 4"), line("12 * 2", "24 * 1")),
    ],
)
def test_a_weakness_of_attention_overlooks_what_it_is_named_for(weakness: str, overlooked: Line, seen: Line) -> None:
    hand = hand_of([Fraction(12), Fraction(3), Fraction(2)])
    weak = Weaknesses.model_validate({**NONE, weakness: 0.9})
    none = Weaknesses.model_validate(NONE)
    assert salience(hand, seen, weak) == salience(hand, seen, none) == 1.0
    assert salience(hand, overlooked, weak) < 0.5 < salience(hand, overlooked, none)


DEAD_END = [screen("10", moves="4 + 6 = 10")]


def test_never_resets() -> None:
    assert share("reset_numbers", DEAD_END) == 1.0
    assert share("stop", DEAD_END, never_resets=1.0) == 1.0


def test_stops_too_early() -> None:
    assert share("stop", DEAD_END) == 0.0
    assert 0.3 < share("stop", DEAD_END, stops_too_early=1.0) < 0.5


FAILED = [screen("4, 6"), screen("4, 6", "Nothing happens.")]


def test_repeats() -> None:
    def again(**weaknesses: float) -> float:
        pairs = [[says(decision) for decision in answers(FAILED, seed, **weaknesses)] for seed in range(200)]
        return sum(first == second for first, second in pairs) / 200

    assert again(repeats=1.0) == 1.0
    assert again() < 0.9


def test_a_failure_is_noticed_by_the_numbers_alone() -> None:
    unchanged = [screen("4, 6"), screen("4, 6", "Well.")]
    assert share("stop", unchanged, stops_too_early=1.0) > 0.3


def test_generalises() -> None:
    screens = [screen("3, 8, 1"), screen("3, 8, 1", "Blocked: no.")]

    def multiplies(**weaknesses: float) -> float:
        last = [says(answers(screens, seed, **weaknesses)[-1]) for seed in range(200)]
        return sum("*" in answer for answer in last) / 200

    assert multiplies(generalises=1.0) < multiplies()


def test_forgets() -> None:
    hidden = [screen("4, 6, 1"), "6 * 4 = 24.\nTarget: 24"]
    first = says(answers(hidden[:1], 3)[0])
    assert first.startswith("combine")
    assert share("reset_numbers", hidden, forgets=1.0) == 1.0
    assert share("reset_numbers", hidden) < 0.5


def test_trusts_screen() -> None:
    outdated = [screen("4, 6, 1"), screen("5, 5, 5, 5", "Well.")]

    def follows(**weaknesses: float) -> float:
        last = [says(answers(outdated, seed, **weaknesses)[-1]) for seed in range(100)]
        return sum("5" in answer.split() for answer in last) / 100

    assert follows(trusts_screen=1.0) == 1.0
    assert follows() < 0.6


HINT = "\nHint: combine(left='2', operation='-', right='7')"


def test_distrusts_hints() -> None:
    assert share("combine 2 - 7", [screen("2, 7, 9", extra=HINT)]) == 1.0
    assert share("combine 2 - 7", [screen("2, 7, 9", extra=HINT)], distrusts_hints=1.0) < 0.2


def test_ignores_long_text() -> None:
    buried = [screen("2, 7, 9", extra="\n" + "So it goes. " * 30 + HINT)]
    assert share("combine 2 - 7", buried) == 1.0
    assert share("combine 2 - 7", buried, ignores_long_text=1.0) < 0.2


def test_starts_afresh() -> None:
    begun = [screen("24, 1", moves="4 * 6 = 24")]
    assert share("combine 24 * 1", begun) > 0.3
    assert share("reset_numbers", begun) < 0.1
    assert share("reset_numbers", begun, starts_afresh=1.0) == 1.0


def test_a_refusal_that_names_a_tool_is_often_obeyed() -> None:
    screens = [screen("4, 6, 1"), screen("4, 6, 1", "Not allowed: call reset_numbers first.")]
    assert 0.3 < share("reset_numbers", screens) < 0.9


def test_it_asks_for_numbers_it_cannot_see_and_reads_the_answer() -> None:
    screens = ["A new deal.\nTarget: 24\nNumb", "Nothing happens: no move was made, and the numbers are 4, 6.\nTarget"]
    decisions = answers(screens)
    assert says(decisions[0]) == "reset_numbers"
    assert says(decisions[1]).startswith("combine")


def test_a_screen_without_anything_on_it_ends_in_giving_up_or_asking() -> None:
    for seed in range(20):
        assert {says(decision) for decision in answers([""] * 12, seed, stops_too_early=1.0)} <= {
            "reset_numbers",
            "stop",
        }


# --- reading --------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("body", "hint"),
    [
        ("combine 8 and 3 with *", ("8", "*", "3")),
        ("combine(left='8', operation='-', right='-3')", ("8", "-", "-3")),
        ('combine {"left": "8/3", "operation": "/", "right": "3"}', ("8/3", "/", "3")),
        ("8*3", ("8", "*", "3")),
        ("5 - 8/3", ("5", "-", "8/3")),
        ("multiply 8 by 3", ("8", "*", "3")),
        ("try to divide", (None, "/", None)),
        ("good luck", (None, None, None)),
    ],
)
def test_hints_are_read_leniently(body: str, hint: tuple[str | None, str | None, str | None]) -> None:
    left, operation, right = hint
    expected = Hint(Fraction(left) if left else None, operation, Fraction(right) if right else None)  # pyright: ignore[reportArgumentType]  operations
    assert read(f"Some text\nHint: {body}\nMore: 1, 2", ["combine"]).hints == (expected,)


def test_a_hint_to_take_moves_back_is_read() -> None:
    assert read("Hint: reset_numbers()", []).hints == (Hint(resets=True),)


@pytest.mark.parametrize(
    ("text", "numbers", "missing"),
    [
        (screen("8, 3, 8/3"), ["8/3", "3", "8"], 0),
        ("Numbers left (4): 8, [?], 2, 5\n", ["2", "5", "8"], 1),
        ("Numbers left (4): 8, 3, [...]", ["3", "8"], 2),
        ("[?] [?] ([?]): 8, 3, 5", ["3", "5", "8"], 0),
        ("no 7 among 8, 3.\nTarget: 24\nNumbers left (2): 8", ["3", "8"], 0),
        ("Earlier: Numbers left (4): 1, 2, 3, 4\nNow: Numbers left (2): 5, 6", ["5", "6"], 0),
        ("nothing here", None, 0),
    ],
)
def test_numbers_are_read_from_what_is_left_of_a_screen(text: str, numbers: list[str] | None, missing: int) -> None:
    reading = read(text, [])
    assert (None if reading.numbers is None else [str(number) for number in reading.numbers]) == numbers
    assert reading.missing == missing


# --- options --------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("options", [{"favours": 1.5}, {"laziness": 0.5}, {"favourite": "%"}])
def test_a_wrong_option_is_a_config_error_that_names_it(options: dict[str, object]) -> None:
    with pytest.raises(ConfigError, match=next(iter(options))):
        SolverPolicy(0, **options)


def test_every_weakness_is_an_option_and_two_have_no_template() -> None:
    assert set(WEAKNESSES) == set(Weaknesses.model_fields) - {"favourite"}
    assert len(WITHOUT_TEMPLATE) >= 2
    assert set(WEAKNESSES) > WITHOUT_TEMPLATE


def test_it_is_registered() -> None:
    assert isinstance(PolicySpec(id="solver", options={"favours": 0.1}).build(seed=1), SolverPolicy)
