"""Dose finding: one Bayesian response curve a type of component, taught by every rollout at any magnitude of a task.

The types of a task share the baseline rate, so a rollout of one type says a little about all. Pure: a belief follows
from the counts it is given, whatever their order.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from envharness.statistics import curves
from envharness.statistics.curves import Array

GRID = tuple(step / 64 for step in range(1, 65))
"""The magnitudes that count where a caller names none."""
_DIGITS = 9
"""Probabilities are rounded to this, so that two machines which add in another order decide alike."""


@dataclass(frozen=True, order=True)
class Dose:
    """A type of component at a magnitude in [0, 1]."""

    type: str
    magnitude: float


@dataclass(frozen=True)
class Trial:
    """What rollouts of one type at one magnitude brought; several of the same dose add up."""

    type: str
    magnitude: float
    successes: int
    trials: int

    def __post_init__(self) -> None:
        _check_counts(self.successes, self.trials)
        if not 0.0 <= self.magnitude <= 1.0:
            raise ValueError(f"magnitude {self.magnitude}: give one from 0 to 1")


@dataclass(frozen=True)
class RateEstimate:
    """The success rate expected at a dose, and the ends of its 95 % credible interval."""

    mean: float
    low: float
    high: float


@dataclass(frozen=True)
class DoseBelief:
    """What the rollouts of one task say about the success rate at every dose.

    `falling` says that more magnitude means fewer wins (obstacles). Where it means more (scaffolds) the curve of the
    loss rate falls, and the band is mirrored. `baseline` are the wins and rollouts without any component.
    """

    band: tuple[float, float]
    falling: bool
    baseline: tuple[int, int]
    trials: Sequence[Trial] = ()

    def __post_init__(self) -> None:
        _check_counts(*self.baseline)
        if not 0.0 <= self.band[0] <= self.band[1] <= 1.0:
            raise ValueError(f"band {self.band}: give 0 <= low <= high <= 1")

    def mass(self, dose: Dose) -> float:
        """Return the probability that the success rate at `dose` lies in the band."""
        inside = curves.in_band(self._falling_band, dose.magnitude)
        return round(min(float(self._weights(dose.type)[inside].sum()), 1.0), _DIGITS)

    def masses(self, type_: str, magnitudes: Sequence[float]) -> list[float]:
        """Return the probability that the success rate of `type_` lies in the band, at each of `magnitudes`."""
        rising = tuple(sorted(set(magnitudes)))
        spans = curves.spans(self._falling_band, rising)
        weights = self._weights(type_).ravel()
        # Every curve adds its weight where its stretch begins and takes it back where that ends.
        begins = np.bincount(spans.begin, weights, minlength=len(rising) + 1)
        ends = np.bincount(spans.end, weights, minlength=len(rising) + 1)
        sums = np.clip(np.round(np.cumsum(begins - ends), _DIGITS), 0.0, 1.0)
        found = dict(zip(rising, sums.tolist(), strict=False))
        return [found[magnitude] for magnitude in magnitudes]

    def reachable(self, type_: str, magnitudes: Sequence[float] = GRID) -> float:
        """Return the probability that the success rate of `type_` lies in the band at any of `magnitudes`."""
        spans = curves.spans(self._falling_band, tuple(sorted(set(magnitudes))))
        inside = float(self._weights(type_).ravel()[spans.end > spans.begin].sum())
        return round(min(inside, 1.0), _DIGITS)

    def rate(self, dose: Dose) -> RateEstimate:
        """Return what the success rate at `dose` is expected to be."""
        weights = self._weights(dose.type).ravel()
        rates = curves.rates(dose.magnitude).ravel()
        rates = rates if self.falling else 1.0 - rates
        order = np.argsort(rates, kind="stable")
        ends = np.searchsorted(np.cumsum(weights[order]), (0.025, 0.975)).clip(max=len(order) - 1)
        low, high = (float(rates[order[end]]) for end in ends)
        mean = min(max(float((rates * weights).sum()), 0.0), 1.0)
        # A distribution with a far tail may have its mean beyond a quantile; the interval is to hold what is printed.
        return RateEstimate(mean, min(low, mean), max(high, mean))

    def best(
        self, types: Sequence[str], magnitudes: Sequence[float] | Mapping[str, Sequence[float]] = GRID
    ) -> Dose | None:
        """Return the dose that most probably lies in the band, or None where there is none to choose from.

        `magnitudes` are the same for all types, or a mapping from each. Of equals, the type named first is taken, and
        then the magnitude named first.
        """
        found: tuple[float, Dose] | None = None
        for type_ in types:
            choice = tuple(magnitudes.get(type_, ()) if isinstance(magnitudes, Mapping) else magnitudes)
            if not choice:
                continue
            masses = self.masses(type_, choice)
            top = max(masses)
            if found is None or top > found[0]:
                found = (top, Dose(type_, choice[masses.index(top)]))
        return found[1] if found else None

    @property
    def _falling_band(self) -> tuple[float, float]:
        low, high = self.band
        return (low, high) if self.falling else (round(1.0 - high, 12), round(1.0 - low, 12))

    @cached_property
    def _evidence(self) -> dict[str, Array]:
        """The likelihood of every curve of each type tried, times the prior of its shape, up to a factor a type."""
        counts: dict[Dose, tuple[int, int]] = defaultdict(lambda: (0, 0))
        for trial in self.trials:
            won, played = counts[Dose(trial.type, trial.magnitude)]
            counts[Dose(trial.type, trial.magnitude)] = (won + trial.successes, played + trial.trials)
        logs: dict[str, Array] = {}
        for dose in sorted(counts):
            seen = self._log_likelihood(dose.magnitude, *counts[dose])
            logs[dose.type] = logs[dose.type] + seen if dose.type in logs else seen
        return {type_: np.exp(values - values.max()) * curves.shape_weights() for type_, values in logs.items()}

    @cached_property
    def _baseline_posterior(self) -> Array:
        """The probability of every baseline rate given all rollouts of all types."""
        # Every shape is 1 at magnitude 0, so that any column holds the likelihoods of the baselines.
        logs = np.log(curves.baseline_weights()) + self._log_likelihood(0.0, *self.baseline)[:, 0]
        for type_ in sorted(self._evidence):
            logs = logs + np.log(np.maximum(self._evidence[type_].sum(axis=1), 1e-300))
        weights = np.exp(logs - logs.max())
        return weights / weights.sum()

    @cached_property
    def _weight_cache(self) -> dict[str | None, Array]:
        return {}

    def _weights(self, type_: str) -> Array:
        """The posterior probability of every curve of a type: baselines x shapes, adding up to 1."""
        # All types that were never tried are one.
        key = type_ if type_ in self._evidence else None
        if key not in self._weight_cache:
            if type_ in self._evidence:
                scale = self._baseline_posterior / np.maximum(self._evidence[type_].sum(axis=1), 1e-300)
                weights = self._evidence[type_] * scale[:, None]
            else:
                weights = self._baseline_posterior[:, None] * curves.shape_weights()
            self._weight_cache[key] = weights / weights.sum()
        return self._weight_cache[key]

    def _log_likelihood(self, magnitude: float, successes: int, trials: int) -> Array:
        won, lost = curves.log_likelihoods(magnitude)
        falls, rest = (successes, trials - successes) if self.falling else (trials - successes, successes)
        return won * falls + lost * rest


def _check_counts(successes: int, trials: int) -> None:
    if not 0 <= successes <= trials:
        raise ValueError(f"{successes} successes of {trials} trials: give 0 <= successes <= trials")
