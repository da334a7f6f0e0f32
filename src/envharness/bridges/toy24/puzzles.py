"""Generated puzzles: three levels of one hundred solvable hands each, every task id its own fixed hand."""

from __future__ import annotations

import re
from fractions import Fraction
from functools import lru_cache
from itertools import combinations_with_replacement
from typing import Literal, cast

from envharness.bridges.toy24.arithmetic import hand_of, winning_lines
from envharness.core.errors import TaskError
from envharness.core.seeding import stream

Level = Literal["easy", "medium", "hard"]
LEVELS: tuple[Level, ...] = ("easy", "medium", "hard")
TARGET = 24
TASKS_PER_LEVEL = 100
LARGEST = 20
"""Puzzles are made of four whole numbers from 1 to this."""
EASY_LINES = 6
"""An easy puzzle has at least this many winning lines without division."""

_TASK_ID = re.compile(r"(easy|medium|hard)-([0-9]{4})")


def task_ids() -> list[str]:
    """Return the ids of all generated puzzles in sorted order."""
    return sorted(f"{level}-{index:04d}" for level in LEVELS for index in range(TASKS_PER_LEVEL))


def puzzle(task: str, seed: int = 0) -> tuple[int, ...]:
    """Return the four numbers of a task, in rising order. Another `seed` is another three hundred puzzles.

    Raises TaskError for an id that is not listed by `task_ids`.
    """
    match = _TASK_ID.fullmatch(task)
    if match is None or int(match[2]) >= TASKS_PER_LEVEL:
        raise TaskError(
            f"toy24 has no task {task!r}; tasks are easy-0000 to easy-{TASKS_PER_LEVEL - 1:04d}, and likewise medium "
            "and hard (or pass numbers=[...])"
        )
    return generate(cast("Level", match[1]), int(match[2]), seed)


@lru_cache(maxsize=4096)
def generate(level: Level, index: int, seed: int = 0) -> tuple[int, ...]:
    """Return puzzle number `index` (0 to 99) of a level.

    All hands are shuffled once a seed and dealt into a hundred piles; a puzzle is the first hand of its level in its
    pile. So no two tasks share a hand, and none has to be made before another.
    """
    pile = _shuffled_hands(seed)[index::TASKS_PER_LEVEL]
    for numbers in pile:
        plain = plain_lines(numbers, TARGET)
        # Only where no plain line exists does it take the slower search with fractions.
        if (level == "hard") == (plain == 0) and level_of(numbers) == level:
            return numbers
    raise TaskError(f"toy24: seed {seed} has no puzzle {level}-{index:04d}; choose another puzzle_seed")


def level_of(numbers: tuple[int, ...], target: int = TARGET) -> Level | None:
    """Return the level of a hand, or None where it cannot be solved.

    hard: only with a division; medium: without one, in fewer than six ways; easy: in six ways or more.
    """
    plain = plain_lines(tuple(sorted(numbers)), target)
    if plain:
        return "easy" if plain >= EASY_LINES else "medium"
    return "hard" if winning_lines(hand_of([Fraction(number) for number in numbers]), Fraction(target)) else None


def plain_lines(numbers: tuple[int, ...], target: int) -> int:
    """Count the winning lines without division, the same ones as `winning_lines` has. `numbers` rise."""
    if len(numbers) == 1:
        return int(numbers[0] == target)
    count = 0
    seen: set[tuple[int, int]] = set()
    for first in range(len(numbers)):
        for second in range(first + 1, len(numbers)):
            low, high = numbers[first], numbers[second]
            if (low, high) in seen:
                continue
            seen.add((low, high))
            rest = numbers[:first] + numbers[first + 1 : second] + numbers[second + 1 :]
            results = [low + high, low * high, high - low]
            if low != high:
                results.append(low - high)
            count += sum(plain_lines(tuple(sorted((*rest, result))), target) for result in results)
    return count


@lru_cache(maxsize=8)
def _shuffled_hands(seed: int) -> tuple[tuple[int, ...], ...]:
    hands = list(combinations_with_replacement(range(1, LARGEST + 1), 4))
    stream(seed, "toy24", "hands").shuffle(hands)
    return tuple(hands)
