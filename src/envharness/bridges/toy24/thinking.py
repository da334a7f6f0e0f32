"""Which winning lines a mind of limited attention notices, and which move it makes where it notices none."""

from __future__ import annotations

import random
from collections.abc import Mapping
from fractions import Fraction

from envharness.bridges.toy24.arithmetic import Hand, Line, Move, Operation, moves_from, winning_lines
from envharness.bridges.toy24.weaknesses import Weaknesses

HALF_NOTICED = 0.3
"""A line of this salience is noticed every other time."""
STEEPNESS = 4
"""How sharply notice rises with salience: most lines are noticed nearly always or nearly never."""


def notice(
    hand: Hand, target: Fraction, weaknesses: Weaknesses, mistrust: Mapping[object, float], rng: random.Random
) -> Line | None:
    """Return a winning line that comes to mind, or None.

    `mistrust` holds factors from 0 to 1 for operations and for calls that met a refusal before.
    """
    noticed: list[tuple[float, Line]] = []
    for line in winning_lines(hand, target):
        weight = salience(hand, line, weaknesses)
        for move in line:
            weight *= mistrust.get(move.operation, 1.0) * mistrust.get(move, 1.0)
        if rng.random() < weight**STEEPNESS / (weight**STEEPNESS + HALF_NOTICED**STEEPNESS):
            noticed.append((weight, line))
    if not noticed:
        return None
    return rng.choices([line for _, line in noticed], [weight for weight, _ in noticed])[0]


def salience(hand: Hand, line: Line, weaknesses: Weaknesses) -> float:
    """Return how much a line stands out, from 0 to 1."""
    ahead = len(line)
    weight = (1.0 - weaknesses.shallow) ** (ahead - 1)
    if all(move.operation != weaknesses.favourite for move in line):
        # With two numbers left everything is tried.
        weight *= (1.0 - weaknesses.favours) ** min(ahead - 1, 1)
    for place, move in enumerate(line):
        left = ahead - place
        if move.operation == "/":
            weight *= (1.0 - weaknesses.avoids_division) ** (left - 1)
        if move.result.denominator != 1:
            weight *= 1.0 - weaknesses.fears_fractions
    if ahead > 1 and max(hand) not in {line[0].left, line[0].right}:
        weight *= 1.0 - weaknesses.anchors_on_largest
    return weight


def plausible_move(
    hand: Hand, target: Fraction, weaknesses: Weaknesses, mistrust: Mapping[object, float], rng: random.Random
) -> Move:
    """Return a move that looks good to a mind that sees no way to win. `hand` holds two numbers or more."""
    moves: list[Move] = []
    weights: list[float] = []
    for move, _ in moves_from(hand):
        result = move.result
        weight = _taste(move.operation, weaknesses) * mistrust.get(move.operation, 1.0) * mistrust.get(move, 1.0)
        if result.denominator != 1:
            weight *= 1.0 - weaknesses.fears_fractions
        if result < 0:
            weight *= 0.05
        if result and (target / result).denominator == 1:
            weight *= 3.0
        if max(hand) in {move.left, move.right}:
            weight *= 1.0 + weaknesses.anchors_on_largest
        moves.append(move)
        weights.append(weight + 1e-6)
    return rng.choices(moves, weights)[0]


def _taste(operation: Operation, weaknesses: Weaknesses) -> float:
    if operation == weaknesses.favourite:
        return 1.0
    taste = 1.0 - 0.7 * weaknesses.favours
    return taste * (1.0 - weaknesses.avoids_division) if operation == "/" else taste
