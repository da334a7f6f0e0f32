"""Tasks that are nothing but response curves, so that it is known which accepted components are truly in the band."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from math import exp, log
from random import Random

from envharness.core.seeding import stream

BAND = (0.4, 0.6)
TARGET = 0.5


@dataclass(frozen=True)
class Population:
    """How response curves are distributed: the shares of those that fall not smoothly, and how steep the others are."""

    name: str
    flat: float
    floors: float
    cliffs: float
    widths: tuple[float, float]
    """Narrowest and widest fall, in magnitudes, log-uniform."""


EXPECTED = Population("expected", flat=0.10, floors=0.10, cliffs=0.10, widths=(0.04, 0.35))
HARDER = Population("harder", flat=0.20, floors=0.10, cliffs=0.20, widths=(0.006, 0.08))


@dataclass(frozen=True)
class SimulatedTask:
    """A task that a policy wins too often, and up to three types of component, each with its rate by magnitude."""

    name: str
    baseline: float
    types: dict[str, Callable[[float], float]]

    def in_band(self, type_: str, magnitude: float) -> bool:
        """Whether the true success rate there lies in the band."""
        return BAND[0] <= self.types[type_](magnitude) <= BAND[1]

    def reachable(self) -> bool:
        """Whether any component, on a fine grid, is truly in the band."""
        return any(self.in_band(type_, step / 1024) for type_ in self.types for step in range(1025))


def simulated_tasks(population: Population, count: int) -> list[SimulatedTask]:
    """Return tasks drawn from a named stream; the same ones whatever is played on them."""
    return [_task(population, number) for number in range(count)]


def _task(population: Population, number: int) -> SimulatedTask:
    draws = stream(0, "benchmark.statistics", population.name, number)
    # Half of the tasks are as good as always won, which is what makes them worth reshaping; all are above the band.
    baseline = draws.uniform(0.97, 1.0) if draws.random() < 0.5 else draws.uniform(0.7, 0.97)
    count = draws.choices((1, 2, 3), weights=(0.1, 0.2, 0.7))[0]
    types = {f"type-{place}": _curve(population, baseline, draws) for place in range(count)}
    return SimulatedTask(f"task-{number}", baseline, types)


def _curve(population: Population, baseline: float, draws: Random) -> Callable[[float], float]:
    family = draws.random()
    middle, floor = draws.uniform(0.02, 0.98), draws.uniform(0.65, 0.95)
    width = exp(draws.uniform(*map(log, population.widths)))
    shape = draws.choice((_logistic, _gompertz, _ramp))
    if family < population.flat:
        return lambda _: baseline
    if family < population.flat + population.cliffs:
        return lambda m: baseline if m < middle else 0.05 * baseline
    if family < population.flat + population.cliffs + population.floors:
        # The floor is of the success rate itself, so nothing is in the band.
        return lambda m: min(floor, baseline) + max(baseline - floor, 0.0) * shape(m, middle, width)
    return lambda m: baseline * shape(m, middle, width)


def _logistic(m: float, middle: float, width: float) -> float:
    return (1.0 + exp(-middle / width)) / (1.0 + exp((m - middle) / width))


def _gompertz(m: float, middle: float, width: float) -> float:
    """Falls slowly at first and then all at once: no logistic curve has this shape."""
    hazard, start = exp((m - middle) / width), exp(-middle / width)
    return exp(-log(2.0) * (hazard - start))


def _ramp(m: float, middle: float, width: float) -> float:
    """A straight fall, four widths long; the part below magnitude 0 is left out."""
    start = max(middle - 2.0 * width, 0.0)
    return min(max(1.0 - (m - start) / (4.0 * width), 0.0), 1.0)
