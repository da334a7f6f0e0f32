"""The rules of acceptance, played on simulated tasks: every rollout is paid for, those of failed tasks too."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from benchmarks.simulated_tasks import BAND, TARGET, SimulatedTask
from envharness.core.seeding import stream
from envharness.rigger.search import Response, next_magnitude
from envharness.statistics.beta import BetaPosterior
from envharness.statistics.dose import GRID, Dose, DoseBelief, Trial
from envharness.statistics.rules import Ruling, dose_finding, empirical, posterior

BASELINE = 5
"""Rollouts without a component, which every rule pays for."""
ROUNDS = 5
"""Magnitudes a type that the method's bisection may try."""


@dataclass(frozen=True)
class Outcome:
    """What a rule did with one task: what it paid, and what it accepted with which probability of being in the band."""

    rollouts: int
    accepted: Dose | None
    true: bool
    claimed: float = 0.0


class Rollouts:
    """The rollouts of a task under one rule, from a stream of their own."""

    def __init__(self, task: SimulatedTask, rule: str) -> None:
        self.task = task
        self.paid = BASELINE
        self._draws = stream(0, "benchmark.rollouts", task.name, rule)
        self.baseline = sum(self._draws.random() < task.baseline for _ in range(BASELINE))

    def wins(self, type_: str, magnitude: float, count: int) -> int:
        """Play `count` rollouts and return how many were won."""
        rate = self.task.types[type_](magnitude)
        self.paid += count
        return sum(self._draws.random() < rate for _ in range(count))

    def outcome(self, accepted: Dose | None = None, claimed: float = 0.0) -> Outcome:
        """Return what has come of it so far."""
        true = accepted is not None and self.task.in_band(accepted.type, accepted.magnitude)
        return Outcome(self.paid, accepted, true, claimed)


@dataclass(frozen=True)
class MethodsRule:
    """K rollouts a magnitude, all of them run, accepted by the observed rate; bisection, a few rounds a type."""

    rollouts: int
    cap: int | None = None

    def play(self, task: SimulatedTask) -> Outcome:
        """Rig one task."""
        played = Rollouts(task, f"method-{self.rollouts}")
        for type_ in task.types:
            history: list[Response] = []
            while len(history) < ROUNDS and not _over(self.cap, played.paid + self.rollouts):
                magnitude = next_magnitude(history, target=TARGET, rising=False)
                if magnitude is None:
                    break
                won = played.wins(type_, magnitude, self.rollouts)
                if empirical(won, self.rollouts, band=BAND, rollouts=self.rollouts) is Ruling.ACCEPT:
                    return played.outcome(Dose(type_, magnitude))
                history.append(Response(magnitude, won / self.rollouts))
        return played.outcome()


@dataclass(frozen=True)
class PosteriorRule:
    """Batches at a magnitude until its own Beta posterior decides; bisection between magnitudes."""

    accept: float
    reject: float
    batch: int = 5
    cap: int = 300
    stay: int = 100
    """Rollouts at one magnitude; where they leave it undecided, bisection goes on from the observed rate."""
    rounds: int = 8
    """More than the method's: a magnitude that is dropped early should not use up the type."""

    def play(self, task: SimulatedTask) -> Outcome:
        """Rig one task."""
        played = Rollouts(task, f"posterior-{self.reject}")
        for type_ in task.types:
            history: list[Response] = []
            while len(history) < self.rounds and played.paid < self.cap:
                magnitude = next_magnitude(history, target=TARGET, rising=False)
                if magnitude is None:
                    break
                won = trials = 0
                ruling, mass = Ruling.MORE, 0.0
                while ruling is Ruling.MORE:
                    won, trials = won + played.wins(type_, magnitude, self.batch), trials + self.batch
                    mass = BetaPosterior(won, trials).mass(BAND)
                    exhausted = played.paid >= self.cap or trials >= self.stay
                    ruling = posterior(mass, accept=self.accept, reject=self.reject, exhausted=exhausted)
                if ruling is Ruling.ACCEPT:
                    return played.outcome(Dose(type_, magnitude), mass)
                history.append(Response(magnitude, won / trials))
        return played.outcome()


@dataclass(frozen=True)
class Visit:
    """What a belief held after some batch of dose finding."""

    paid: int
    best: Dose
    mass: float
    reachable: float
    true: bool


@dataclass(frozen=True)
class DoseFinding:
    """One belief over response curves a task; the next batch goes where the rate is most probably in the band.

    Which dose comes next does not depend on the threshold, so one play of a task serves all of them.
    """

    batch: int = 5
    cap: int = 300
    highest: float = 0.99
    give_up: float = 0.02
    grid: Sequence[float] = GRID

    def visits(self, task: SimulatedTask) -> list[Visit]:
        """Play until the highest threshold is passed, the cap is reached or nothing is in reach."""
        played = Rollouts(task, f"dose-{self.batch}")
        types, trials, seen = list(task.types), list[Trial](), list[Visit]()
        while True:
            belief = DoseBelief(BAND, falling=True, baseline=(played.baseline, BASELINE), trials=trials)
            best = belief.best(types, self.grid)
            assert best is not None
            mass, reachable = belief.mass(best), max(belief.reachable(type_, self.grid) for type_ in types)
            if any(trial.type == best.type for trial in trials):
                true = task.in_band(best.type, best.magnitude)
                seen.append(Visit(played.paid, best, mass, reachable, true))
            exhausted = played.paid >= self.cap
            ruling = dose_finding(mass, reachable, accept=self.highest, give_up=self.give_up, exhausted=exhausted)
            if ruling is not Ruling.MORE:
                return seen
            won = played.wins(best.type, best.magnitude, self.batch)
            trials.append(Trial(best.type, best.magnitude, won, self.batch))


def decided(visits: Sequence[Visit], accept: float, *, give_up: float = 0.04, cap: int = 300) -> Outcome:
    """Return what dose finding does under a threshold, from a play that went at least as far."""
    for visit in visits:
        if visit.mass >= accept:
            return Outcome(visit.paid, visit.best, visit.true, visit.mass)
        if visit.paid >= cap or visit.reachable < give_up:
            return Outcome(visit.paid, None, true=False)
    return Outcome(visits[-1].paid if visits else BASELINE, None, true=False)


def identity_passes(rate: float, *, rollouts: int = 5, rounds: int = ROUNDS) -> float:
    """Return the probability that a component which does nothing passes the method's gate, exactly."""
    chances = [1.0]
    for _ in range(rollouts):
        chances = [stay * (1 - rate) + won * rate for stay, won in zip([*chances, 0.0], [0.0, *chances], strict=True)]
    once = sum(
        chance
        for won, chance in enumerate(chances)
        if empirical(won, rollouts, band=BAND, rollouts=rollouts) is Ruling.ACCEPT
    )
    return 1 - (1 - once) ** rounds


def identity_passes_posterior(rate: float, rule: PosteriorRule, plays: int) -> float:
    """Return the share of plays in which a component that does nothing passes the posterior rule, in one round."""
    passed = 0
    for number in range(plays):
        draws = stream(0, "benchmark.identity", str(rate), number)
        won = trials = 0
        ruling = Ruling.MORE
        while ruling is Ruling.MORE:
            won, trials = won + sum(draws.random() < rate for _ in range(rule.batch)), trials + rule.batch
            mass = BetaPosterior(won, trials).mass(BAND)
            ruling = posterior(mass, accept=rule.accept, reject=rule.reject, exhausted=trials >= rule.cap)
        passed += ruling is Ruling.ACCEPT
    return passed / plays


def _over(cap: int | None, rollouts: int) -> bool:
    return cap is not None and rollouts > cap
