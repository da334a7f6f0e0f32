"""The prior over response curves: how a success rate may fall as the magnitude of a component grows.

A curve is a baseline rate times a shape; a shape is 1 at magnitude 0 and never rises. Shapes are drawn from a fixed
named stream and lie on no lattice: an even grid of parameters leaves gaps, and a posterior is too sure in them.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache
from math import exp, log

import numpy as np
from numpy.typing import NDArray

from envharness.core.seeding import stream

Array = NDArray[np.float64]

BASELINES = (0.1, 0.2, 0.3, 0.4, 0.5, 0.6, 0.7, 0.8, 0.875, 0.925, 0.965, 1.0)
"""Rates at magnitude 0, denser toward 1, where the tasks that a policy always wins are."""
LOGISTIC, CLIFFS, FLOORS, FLAT = 1400, 64, 120, 1
"""How many shapes of each family there are."""
WEIGHTS = (0.80, 0.05, 0.05, 0.10)
"""What the families weigh together, in the same order."""
AFTER_CLIFF = 0.05
"""The share of the baseline rate that is left behind a cliff."""
FLOOR = (0.65, 0.90)
"""Between which shares of the baseline rate a floor lies."""
WIDTH = (0.006, 0.35)
"""Narrowest and widest fall of a logistic shape, in magnitudes."""
RATE_MARGIN = 1e-3
"""Rates are never taken for surer than this: one odd episode must not rule a curve out for good."""


@lru_cache(maxsize=1)
def _falls() -> tuple[Array, Array, Array]:
    """Return middle, width and floor of every shape with a smooth fall: the logistic ones, then those with a floor."""
    draws = stream(0, "statistics.curves")
    smooth = LOGISTIC + FLOORS
    middles = [draws.random() for _ in range(smooth)]
    narrow, wide = log(WIDTH[0]), log(WIDTH[1])
    widths = [exp(narrow + (wide - narrow) * draws.random()) for _ in range(smooth)]
    floors = [0.0] * LOGISTIC + [FLOOR[0] + (FLOOR[1] - FLOOR[0]) * draws.random() for _ in range(FLOORS)]
    return np.array(middles), np.array(widths), np.array(floors)


@lru_cache(maxsize=1)
def shape_weights() -> Array:
    """Return the prior probability of every shape, in the order of `shapes`; they add up to 1."""
    families = zip((LOGISTIC, FLOORS, CLIFFS, FLAT), (WEIGHTS[0], WEIGHTS[2], WEIGHTS[1], WEIGHTS[3]), strict=True)
    return np.concatenate([np.full(count, weight / count) for count, weight in families])


@lru_cache(maxsize=1)
def baseline_weights() -> Array:
    """Return the prior probability of every rate of `BASELINES`: in proportion to its square, so weighted toward 1."""
    squares = np.square(BASELINES)
    return squares / squares.sum()


def shapes(magnitude: float) -> Array:
    """Return the share of the baseline rate, (0, 1], that each shape leaves at `magnitude` in [0, 1]."""
    if not 0.0 <= magnitude <= 1.0:
        raise ValueError(f"magnitude {magnitude}: give one from 0 to 1")
    middle, width, floor = _falls()
    falling = floor + (1.0 - floor) * _sigmoid((middle - magnitude) / width) / _sigmoid(middle / width)
    edges = (np.arange(CLIFFS) + 0.5) / CLIFFS
    cliffs = np.where(magnitude < edges, 1.0, AFTER_CLIFF)
    return np.concatenate([falling, cliffs, np.ones(FLAT)])


@lru_cache(maxsize=160)
def rates(magnitude: float) -> Array:
    """Return the success rate of every curve at `magnitude`: one row a baseline, one column a shape."""
    return _frozen(np.outer(BASELINES, shapes(magnitude)))


@lru_cache(maxsize=160)
def log_likelihoods(magnitude: float) -> tuple[Array, Array]:
    """Return the logarithms of every curve's chance to win and to lose one rollout at `magnitude`."""
    safe = np.clip(rates(magnitude), RATE_MARGIN, 1.0 - RATE_MARGIN)
    return _frozen(np.log(safe)), _frozen(np.log1p(-safe))


@dataclass(frozen=True)
class Spans:
    """Where each curve's rate lies in a band, on rising magnitudes: a curve that never rises is there on one stretch.

    Both are indices of magnitudes, flat over baselines x shapes: the first one inside and the first one behind it; the
    same where the curve is in the band at none of them.
    """

    begin: NDArray[np.intp]
    end: NDArray[np.intp]


def in_band(band: tuple[float, float], magnitude: float) -> NDArray[np.bool_]:
    """Return for which curves the rate at `magnitude` lies in `band`, ends included: baselines x shapes."""
    here = rates(magnitude)
    return (here >= band[0] - 1e-12) & (here <= band[1] + 1e-12)


@lru_cache(maxsize=64)
def spans(band: tuple[float, float], magnitudes: tuple[float, ...]) -> Spans:
    """Return the stretch of the rising `magnitudes` on which each curve's rate lies in `band`."""
    inside = np.stack([in_band(band, magnitude) for magnitude in magnitudes])
    begin, length = inside.argmax(axis=0).ravel(), inside.sum(axis=0).ravel()
    return Spans(begin, begin + length)


def _sigmoid(x: Array) -> Array:
    return 1.0 / (1.0 + np.exp(-np.clip(x, -500.0, 500.0)))


def _frozen(values: Array) -> Array:
    """What a cache hands out belongs to all of its callers."""
    values.setflags(write=False)
    return values
