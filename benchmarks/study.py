"""What the rules of acceptance do to a population of simulated tasks, summarised and matched with each other."""

from __future__ import annotations

from collections.abc import Sequence
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass
from math import sqrt
from multiprocessing import get_context
from statistics import mean

from benchmarks.acceptance import DoseFinding, MethodsRule, Outcome, PosteriorRule, Visit, decided
from benchmarks.simulated_tasks import Population, SimulatedTask, simulated_tasks

WORKERS = 2
CHUNK = 50
_FINE = tuple(step / 100 for step in range(50, 98))
RULES: dict[str, MethodsRule | PosteriorRule] = {
    "method, K = 5": MethodsRule(5),
    "method, K = 20": MethodsRule(20),
    "method, K = 30": MethodsRule(30),
    "posterior per magnitude": PosteriorRule(0.8, 0.05),
    "posterior, drop early": PosteriorRule(0.8, 0.15),
}


@dataclass(frozen=True)
class Row:
    """What a rule does to a population: shares are of all tasks, `true_share` of those accepted."""

    rollouts: float
    accepted: float
    true_share: float
    true_share_error: float
    false_accepts: float
    misses: float
    """Tasks with a component in reach of which none was truly found."""
    claimed: float
    """The mean probability with which components were accepted; 0 for rules that know none."""

    @property
    def rollouts_per_true_accept(self) -> float:
        """Rollouts of all tasks, the failed ones included, for each component truly in the band."""
        true = self.accepted * self.true_share
        return self.rollouts / true if true else float("inf")


@dataclass(frozen=True)
class Study:
    """What was played on one population."""

    tasks: list[SimulatedTask]
    reachable: list[bool]
    played: dict[str, list[Outcome]]
    doses: dict[int, list[list[Visit]]]
    """By size of batch."""

    def row(self, name: str) -> Row:
        """Summarise a rule without a belief."""
        return self._row(self.played[name])

    def dose(self, accept: float, *, batch: int = 5, give_up: float = 0.04) -> Row:
        """Summarise dose finding under a threshold."""
        return self._row([decided(visits, accept, give_up=give_up) for visits in self.doses[batch]])

    def dose_for(self, rollouts: float) -> tuple[float, Row]:
        """Return the strictest threshold that pays no more than `rollouts` a task, and what it does."""
        rows = [(accept, self.dose(accept)) for accept in _FINE]
        return max((pair for pair in rows if pair[1].rollouts <= rollouts), default=rows[0], key=lambda pair: pair[0])

    def dose_as_true_as(self, true_share: float) -> tuple[float, Row]:
        """Return the laxest threshold whose accepted components are in the band as often, and what it does."""
        rows = [(accept, self.dose(accept)) for accept in _FINE]
        return next((pair for pair in rows if pair[1].true_share >= true_share), rows[-1])

    def _row(self, outcomes: Sequence[Outcome]) -> Row:
        accepted = [outcome for outcome in outcomes if outcome.accepted]
        share = mean(outcome.true for outcome in accepted) if accepted else 0.0
        count = len(self.reachable)
        missed = sum(reach and not seen.true for reach, seen in zip(self.reachable, outcomes, strict=True))
        return Row(
            rollouts=mean(outcome.rollouts for outcome in outcomes),
            accepted=len(accepted) / count,
            true_share=share,
            true_share_error=sqrt(share * (1 - share) / max(len(accepted), 1)),
            false_accepts=sum(not outcome.true for outcome in accepted) / count,
            misses=missed / count,
            claimed=mean(outcome.claimed for outcome in accepted) if accepted else 0.0,
        )


def study(
    population: Population, tasks: int, *, batches: Sequence[int] = (5,), rules: Sequence[str] = tuple(RULES)
) -> Study:
    """Play rules on `tasks` tasks of a population; the same content whatever the number of workers."""
    simulated = simulated_tasks(population, tasks)
    jobs = [(population, start, min(start + CHUNK, tasks)) for start in range(0, tasks, CHUNK)]
    with ProcessPoolExecutor(WORKERS, mp_context=get_context("spawn")) as pool:
        played = {name: pool.map(_play, jobs, [RULES[name]] * len(jobs)) for name in rules}
        doses = {size: pool.map(_visits, jobs, [DoseFinding(batch=size)] * len(jobs)) for size in batches}
        return Study(
            simulated,
            [task.reachable() for task in simulated],
            {name: [outcome for chunk in chunks for outcome in chunk] for name, chunks in played.items()},
            {size: [visits for chunk in chunks for visits in chunk] for size, chunks in doses.items()},
        )


def _play(job: tuple[Population, int, int], rule: MethodsRule | PosteriorRule) -> list[Outcome]:
    population, start, end = job
    return [rule.play(task) for task in simulated_tasks(population, end)[start:]]


def _visits(job: tuple[Population, int, int], rule: DoseFinding) -> list[list[Visit]]:
    population, start, end = job
    return [rule.visits(task) for task in simulated_tasks(population, end)[start:]]
