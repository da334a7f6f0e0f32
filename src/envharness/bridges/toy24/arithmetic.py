"""Exact arithmetic on small hands of numbers: moves, all winning lines, and how a number is written."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from fractions import Fraction
from functools import lru_cache
from typing import Literal, cast

Operation = Literal["+", "-", "*", "/"]
OPERATIONS: tuple[Operation, ...] = ("+", "-", "*", "/")

Hand = tuple[Fraction, ...]
"""The numbers at hand in rising order, so that equal hands are equal tuples."""

_WRITTEN = re.compile(r"(-?[0-9]{1,40})(?:/([0-9]{1,40}))?")


_MOVE = re.compile(r"(?P<left>\S+) (?P<operation>[-+*/]) (?P<right>\S+) = (?P<result>\S+)")


@dataclass(frozen=True, slots=True)
class Move:
    """One combination of two numbers."""

    left: Fraction
    operation: Operation
    right: Fraction

    @property
    def result(self) -> Fraction:
        """The exact result. Raises ZeroDivisionError for a division by zero."""
        return calculate(self.left, self.operation, self.right)

    def __str__(self) -> str:
        return f"{self.left} {self.operation} {self.right}"


Line = tuple[Move, ...]
"""Moves one after the other that turn a hand into one number."""


def calculate(left: Fraction, operation: Operation, right: Fraction) -> Fraction:
    """Return the exact result. Raises ZeroDivisionError for a division by zero."""
    if operation == "+":
        return left + right
    if operation == "-":
        return left - right
    if operation == "*":
        return left * right
    return left / right


def read_number(text: str) -> Fraction | None:
    """Return the number that `text` writes as `7`, `-7` or `7/3`, or None where it writes none."""
    match = _WRITTEN.fullmatch(text.strip())
    if match is None or (match[2] is not None and int(match[2]) == 0):
        return None
    return Fraction(int(match[1]), int(match[2] or 1))


def hand_of(numbers: tuple[Fraction, ...] | list[Fraction]) -> Hand:
    """Return the numbers in rising order."""
    return tuple(sorted(numbers))


def moves_from(hand: Hand) -> Iterator[tuple[Move, Hand]]:
    """Yield each different move with the hand it leaves. Of a + b and b + a (and of products) only one is yielded."""
    seen: set[tuple[Fraction, Fraction]] = set()
    for first in range(len(hand)):
        for second in range(first + 1, len(hand)):
            low, high = hand[first], hand[second]
            if (low, high) in seen:
                continue
            seen.add((low, high))
            rest = hand[:first] + hand[first + 1 : second] + hand[second + 1 :]
            for move in _moves_of_pair(low, high):
                yield move, tuple(sorted((*rest, move.result)))


def _moves_of_pair(low: Fraction, high: Fraction) -> Iterator[Move]:
    yield Move(high, "+", low)
    yield Move(high, "*", low)
    yield Move(high, "-", low)
    if low:
        yield Move(high, "/", low)
    if low != high:
        yield Move(low, "-", high)
        if high:
            yield Move(low, "/", high)


@lru_cache(maxsize=50_000)
def winning_lines(hand: Hand, target: Fraction) -> tuple[Line, ...]:
    """Return every line of moves from `hand` to the single number `target`; empty where there is none."""
    if len(hand) == 1:
        return ((),) if hand[0] == target else ()
    return tuple((move, *line) for move, left in moves_from(hand) for line in winning_lines(left, target))


def solve(hand: Hand, target: Fraction) -> Line | None:
    """Return a shortest-to-write winning line, the same at every call, or None where the target cannot be reached."""
    return min(winning_lines(hand, target), key=_plainness, default=None)


def _plainness(line: Line) -> tuple[int, int, str]:
    """Order lines: those without fractions first, then those without division, then by how they are written."""
    fractions = sum(move.result.denominator != 1 for move in line)
    return fractions, sum(move.operation == "/" for move in line), "; ".join(str(move) for move in line)


def hand_after(dealt: Sequence[str], moves: Sequence[str]) -> Hand | None:
    """Return what `moves`, each written as `8 * 3 = 24`, leave of the numbers dealt; the empty hand where they cannot.

    A move cannot be made where its numbers are not there or its result is wrong. None where something is not written
    as a number or a move is.
    """
    left: list[Fraction] = []
    for text in dealt:
        if (number := read_number(text)) is None:
            return None
        left.append(number)
    for text in moves:
        match = _MOVE.fullmatch(text)
        numbers = [] if match is None else [read_number(match[part]) for part in ("left", "right", "result")]
        if match is None or None in numbers:
            return None
        first, second, result = cast("list[Fraction]", numbers)
        operation = cast("Operation", match["operation"])
        try:
            for number in (first, second):
                left.remove(number)
            if calculate(first, operation, second) != result:
                return ()
        except (ValueError, ZeroDivisionError):
            return ()
        left.append(result)
    return hand_of(left)
