"""The gate: whether a candidate is accepted, played further or dropped. Code decides, from aggregate outcomes alone."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from envharness.core.errors import ConfigError
from envharness.rigger.config import AcceptanceConfig, RigConfig
from envharness.rigger.doses import belief_of, dose_of
from envharness.rigger.measurement import batches_of, pooled
from envharness.rigger.objectives import Objective, Verdict
from envharness.rigger.records import Belief, Candidate, Direction, Measurement, Round
from envharness.statistics.beta import BetaPosterior
from envharness.statistics.rules import Ruling, posterior


def require_band(acceptance: AcceptanceConfig, objective: Objective) -> None:
    """Raise ConfigError where the rule needs a band of success rates and the objective is about something else."""
    if acceptance.rule == "dose" and objective.rate_band is None:
        raise ConfigError(
            "acceptance.rule: 'dose' needs an objective with a band of success rates; use 'posterior' or 'empirical'"
        )


@dataclass(frozen=True)
class Judgement:
    """What the gate says after a look."""

    ruling: Ruling
    verdict: Verdict
    belief: Belief | None = None


@dataclass(frozen=True)
class Gate:
    """Decides about the candidates of one task."""

    config: RigConfig
    objective: Objective
    baseline: Measurement
    direction: Direction

    def batch_size(self, rounds: Sequence[Round], played: int) -> int:
        """Return how many rollouts come next, `played` of the candidate's being done; 0 where the cap allows none.

        The method's rule wants all K of them; a rule of probabilities takes what the cap leaves.
        """
        rule = self.config.acceptance
        left = rule.most_rollouts - self.paid(rounds) - played
        if rule.rule == "empirical":
            return self.config.rollouts if left >= self.config.rollouts else 0
        return int(max(0, min(rule.batch, left)))

    def paid(self, rounds: Sequence[Round]) -> int:
        """Return the rollouts that the task has paid for in these rounds and the baseline."""
        return self.baseline.asked + sum(entry.measured.asked for entry in rounds if entry.measured)

    def judge(self, rounds: Sequence[Round], candidate: Candidate, measured: Measurement) -> Judgement:
        """Rule on a candidate by its rollouts of this round; by a rule of probabilities also by those of `rounds`.

        There all rollouts of the very candidate count, whatever round paid for them, so that trying the same again is
        no new chance of luck; and where a response curve joins them those at other magnitudes, too.
        """
        rule = self.config.acceptance
        if rule.rule == "empirical" or not measured.complete:
            verdict = self.objective.judge(self.baseline, measured, self.direction)
            return Judgement(Ruling.ACCEPT if verdict.accepts else Ruling.REJECT, verdict)
        everything = pooled([*batches_of(rounds, candidate), measured])
        verdict = self.objective.judge(self.baseline, everything, self.direction)
        belief = self._belief(rounds, candidate, measured)
        exhausted = not self.batch_size(rounds, measured.asked)
        ruling = posterior(belief.probability, accept=rule.threshold, reject=rule.drop, exhausted=exhausted)
        sure = f"{belief.probability:.2f} sure after {belief.rollouts} rollouts that it is on target"
        if ruling is Ruling.ACCEPT:
            return Judgement(ruling, Verdict("in_band", f"{sure}: success rate {belief.rate:.2f}"), belief)
        if verdict.accepts:
            verdict = Verdict("undecided", f"{sure}, not {rule.threshold:g}: success rate {belief.rate:.2f}")
        return Judgement(ruling, verdict, belief)

    def _belief(self, rounds: Sequence[Round], candidate: Candidate, measured: Measurement) -> Belief:
        band, dose = self.objective.rate_band, dose_of(candidate)
        if self.config.acceptance.rule != "dose" or dose is None or band is None:
            everything = pooled([*batches_of(rounds, candidate), measured])
            posterior_ = BetaPosterior(everything.successes, everything.valid)
            low, high = posterior_.interval()
            return Belief(
                probability=self.objective.probability(everything),
                rate=posterior_.mean,
                low=low,
                high=high,
                rollouts=everything.valid,
            )
        latest = Round(number=0, candidate=candidate, measured=measured, decision="refine")
        curve = belief_of(band, self.direction, self.baseline, [*rounds, latest])
        rate = curve.rate(dose)
        return Belief(
            probability=curve.mass(dose),
            rate=rate.mean,
            low=rate.low,
            high=rate.high,
            rollouts=self.baseline.valid + sum(trial.trials for trial in curve.trials if trial.type == dose.type),
        )
