"""Objectives: what a batch of outcomes means for a candidate, and which way the task should move."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal, Protocol

from envharness.rigger.measurement import in_band, lost_to_limits
from envharness.rigger.records import Direction, Measurement
from envharness.statistics.beta import BetaPosterior

VerdictName = Literal[
    "in_band",
    "too_easy",
    "too_hard",
    "no_movement",
    "unsolvable",
    "incomplete",
    "undecided",
    "component_fault",
    "verifier_drift",
    "check_failed",
]


@dataclass(frozen=True)
class Verdict:
    """What a measurement says about a candidate. Only `in_band` accepts it."""

    name: VerdictName
    feedback: str

    @property
    def accepts(self) -> bool:
        """Whether the candidate is accepted."""
        return self.name == "in_band"


class Objective(Protocol):
    """Decides from aggregate outcomes alone, never from one trajectory and never from a model's opinion."""

    @property
    def rate_band(self) -> tuple[float, float] | None:
        """The success rates aimed at, both ends included; None where the objective is about something else."""
        ...

    def probability(self, measured: Measurement) -> float:
        """Return the probability, 0 to 1, that the true quantity is on target, by these rollouts alone."""
        ...

    def direction(self, baseline: Measurement) -> Direction | None:
        """Return which way the task should move, or None where it is on target. `baseline` is complete."""
        ...

    def on_target(self, measured: Measurement) -> bool:
        """Whether a measurement meets the objective."""
        ...

    def judge(self, baseline: Measurement, measured: Measurement, direction: Direction) -> Verdict:
        """Return the verdict on a candidate's fresh rollouts."""
        ...


@dataclass(frozen=True)
class SuccessBand:
    """The method's rule: the success rate of K fresh rollouts lies in [low, high]."""

    low: float = 0.4
    high: float = 0.6

    @property
    def rate_band(self) -> tuple[float, float]:
        """The band itself."""
        return (self.low, self.high)

    def probability(self, measured: Measurement) -> float:
        """The mass of the flat Beta posterior in the band. Invalid rollouts say nothing."""
        return BetaPosterior(measured.successes, measured.valid).mass(self.rate_band)

    def direction(self, baseline: Measurement) -> Direction | None:
        """Harden above the band, scaffold below it, None inside."""
        rate = baseline.success_rate
        if rate is None or self.on_target(baseline):
            return None
        return "harden" if rate > self.high else "scaffold"

    def on_target(self, measured: Measurement) -> bool:
        """Whether the measurement is complete and its rate in the band."""
        return in_band(measured, (self.low, self.high))

    def judge(self, baseline: Measurement, measured: Measurement, direction: Direction) -> Verdict:
        """In band accepts. Otherwise the verdict says whether type or magnitude was wrong."""
        rate, before = measured.success_rate, baseline.success_rate
        if rate is None or before is None or not measured.complete:
            return Verdict("incomplete", f"only {measured.valid} of {measured.asked} rollouts are valid: not decided")
        if self.on_target(measured):
            return Verdict("in_band", f"success rate {rate:.2f} lies in [{self.low:g}, {self.high:g}]")
        unmoved = rate <= before if direction == "scaffold" else rate >= before
        unsolvable = lost_to_limits(measured)
        if unmoved and (direction == "scaffold" or not unsolvable):
            return Verdict("no_movement", f"success rate {rate:.2f}, before {before:.2f}: try another type")
        if unsolvable:
            return Verdict("unsolvable", "every rollout was lost to step limits or blocks: loosen, add no further bans")
        return self._wrong_magnitude(rate, direction)

    def _wrong_magnitude(self, rate: float, direction: Direction) -> Verdict:
        helps = direction == "scaffold"
        if rate > self.high:
            change = "less help" if helps else "more of it"
            return Verdict("too_easy", f"success rate {rate:.2f} is above {self.high:g}: right type, {change}")
        change = "more help" if helps else "less of it"
        return Verdict("too_hard", f"success rate {rate:.2f} is below {self.low:g}: right type, {change}")
