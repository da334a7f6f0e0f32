from __future__ import annotations

from fractions import Fraction
from itertools import permutations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from envharness.bridges.toy24.arithmetic import (
    OPERATIONS,
    Line,
    calculate,
    hand_after,
    hand_of,
    read_number,
    solve,
    winning_lines,
)
from envharness.bridges.toy24.puzzles import (
    LEVELS,
    TASKS_PER_LEVEL,
    Level,
    generate,
    level_of,
    plain_lines,
    puzzle,
    task_ids,
)
from envharness.core.errors import TaskError

small_hands = st.lists(st.integers(1, 13), min_size=2, max_size=4)


def reaches(numbers: list[Fraction], target: Fraction) -> bool:
    """Another way to decide: ordered pairs, no memory, no pruning."""
    if len(numbers) == 1:
        return numbers[0] == target
    for first, second in permutations(range(len(numbers)), 2):
        rest = [number for place, number in enumerate(numbers) if place not in {first, second}]
        for operation in OPERATIONS:
            if operation == "/" and numbers[second] == 0:
                continue
            if reaches([*rest, calculate(numbers[first], operation, numbers[second])], target):
                return True
    return False


def uses_division(line: Line) -> bool:
    return any(move.operation == "/" for move in line)


def play(numbers: list[Fraction], line: Line) -> list[Fraction]:
    hand = list(numbers)
    for move in line:
        hand.remove(move.left)
        hand.remove(move.right)
        hand.append(move.result)
    return hand


@settings(deadline=None, max_examples=50)
@given(small_hands, st.integers(0, 40))
def test_every_winning_line_reaches_the_target_with_the_numbers_at_hand(numbers: list[int], target: int) -> None:
    fractions = [Fraction(number) for number in numbers]
    lines = winning_lines(hand_of(fractions), Fraction(target))
    assert len(set(lines)) == len(lines)
    for line in lines:
        assert play(fractions, line) == [Fraction(target)]


@settings(deadline=None)
@given(st.lists(st.integers(1, 13), min_size=2, max_size=3), st.integers(0, 40))
def test_the_solver_finds_a_line_exactly_where_one_exists(numbers: list[int], target: int) -> None:
    fractions = [Fraction(number) for number in numbers]
    assert (solve(hand_of(fractions), Fraction(target)) is not None) == reaches(fractions, Fraction(target))


@settings(deadline=None, max_examples=50)
@given(small_hands, st.integers(0, 40))
def test_plain_lines_are_the_winning_lines_without_division(numbers: list[int], target: int) -> None:
    lines = winning_lines(hand_of([Fraction(number) for number in numbers]), Fraction(target))
    plain = [line for line in lines if not uses_division(line)]
    assert plain_lines(tuple(sorted(numbers)), target) == len(plain)


@pytest.mark.parametrize(
    ("numbers", "solvable"),
    [((3, 3, 8, 8), True), ((1, 5, 5, 5), True), ((1, 1, 1, 1), False), ((4, 4, 10, 10), True), ((1, 1, 1, 7), False)],
)
def test_known_puzzles_of_four_numbers(numbers: tuple[int, ...], solvable: bool) -> None:
    hand = hand_of([Fraction(number) for number in numbers])
    assert (solve(hand, Fraction(24)) is not None) == solvable


@given(st.fractions())
def test_a_number_is_read_as_it_is_written(number: Fraction) -> None:
    assert read_number(str(number)) == number


@pytest.mark.parametrize("text", ["", "8.0", "x", "1/0", "1 / 2", "8/", "--3", "9" * 99, "\u0663"])
def test_what_writes_no_number_is_none(text: str) -> None:
    assert read_number(text) is None


@settings(deadline=None, max_examples=30)
@given(st.sampled_from(LEVELS), st.integers(0, TASKS_PER_LEVEL - 1), st.integers(0, 3))
def test_a_generated_puzzle_is_of_its_level_and_always_the_same(level: Level, index: int, seed: int) -> None:
    numbers = generate(level, index, seed)
    assert len(numbers) == 4
    assert level_of(numbers) == level
    generate.cache_clear()
    assert generate(level, index, seed) == numbers


def test_a_hard_puzzle_cannot_be_won_without_division() -> None:
    for index in range(10):
        hand = hand_of([Fraction(number) for number in puzzle(f"hard-{index:04d}")])
        lines = winning_lines(hand, Fraction(24))
        assert lines
        assert all(uses_division(line) for line in lines)


@pytest.mark.slow
def test_all_three_hundred_puzzles_exist_and_differ() -> None:
    hands = [puzzle(task) for task in task_ids()]
    assert len(hands) == 300
    assert len(set(hands)) == 300


def test_another_seed_is_another_set_of_puzzles() -> None:
    tasks = [f"easy-{index:04d}" for index in range(8)]
    assert [puzzle(task, 0) for task in tasks] != [puzzle(task, 1) for task in tasks]


@pytest.mark.parametrize(
    "task", ["easy-0100", "easy-1", "simple-0000", "", "easy-00001", "Easy-0000", "hard-\u0660\u0660\u0660\u0661"]
)
def test_an_unknown_task_is_an_error_and_never_another_puzzle(task: str) -> None:
    with pytest.raises(TaskError, match="no task"):
        puzzle(task)


# --- what is left after moves that were written down ---------------------------------------------------------------


def test_moves_written_down_are_played_again() -> None:
    dealt = ["8", "3", "1", "3"]
    assert hand_after(dealt, []) == hand_of([Fraction(n) for n in (8, 3, 1, 3)])
    assert hand_after(dealt, ["8 / 3 = 8/3", "8/3 * 3 = 8", "8 - 1 = 7"]) == (Fraction(7),)
    assert hand_after(["1", "2"], ["1 - 2 = -1"]) == (Fraction(-1),)


@pytest.mark.parametrize(
    "moves",
    [["8 * 4 = 32"], ["3 + 3 = 7"], ["8 * 3 = 24", "8 * 1 = 8"], ["3 - 3 = 0", "8 / 0 = 8"], ["1 + 1 = 2"]],
)
def test_moves_that_cannot_be_made_leave_no_hand(moves: list[str]) -> None:
    assert hand_after(["8", "3", "1", "3"], moves) == ()


@pytest.mark.parametrize("text", ["", "8 * 3", "8 ^ 3 = 5", "eight * 3 = 24", "8*3=24", "8 / 3 = 1/0"])
def test_what_is_no_move_says_nothing(text: str) -> None:
    assert hand_after(["8", "3"], [text]) is None
    assert hand_after(["8", "three"], []) is None
