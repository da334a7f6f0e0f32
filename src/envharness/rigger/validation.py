"""Validate: fresh rollouts of one candidate, a batch at a time, until the gate rules on them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from envharness.core.trace import Episode
from envharness.rigger.batches import TaskBatches
from envharness.rigger.checks import verdict_of
from envharness.rigger.gate import Gate, Judgement
from envharness.rigger.measurement import component_fault, measure
from envharness.rigger.objectives import Verdict
from envharness.rigger.records import Candidate, CandidateCheck, Measurement, Round
from envharness.rigger.requests import Work, play
from envharness.rigger.validity import check_rollouts, first_failed
from envharness.statistics.rules import Ruling


@dataclass(frozen=True)
class Validated:
    """What the rollouts of a candidate came to."""

    measured: Measurement
    episodes: tuple[Episode, ...]
    judgement: Judgement
    checks: tuple[CandidateCheck, ...]
    """Whether all of them began alike and were judged by what happened."""


@dataclass(frozen=True)
class Validation:
    """Pays for rollouts of the candidates of one task. `steered` says that the designer chooses after every batch."""

    batches: TaskBatches
    gate: Gate
    steered: bool

    def run(self, candidate: Candidate, rounds: Sequence[Round], number: int) -> Work[Validated]:
        """Play `candidate` in round `number`, which the cap allows a batch at least."""
        stack = candidate.apply(self.batches.view.base_stack)
        episodes: tuple[Episode, ...] = ()
        keys: tuple[str, ...] = ()
        while True:
            size = self.gate.batch_size(rounds, len(keys))
            batch = self.batches.round(number, stack, range(len(keys), len(keys) + size))
            episodes += tuple((yield from play(batch)))
            keys += tuple(job.key for job in batch.jobs)
            measured, checks = measure(episodes, keys), tuple(check_rollouts(episodes))
            judgement = _voided(episodes, checks) or self.gate.judge(rounds, candidate, measured)
            if judgement.ruling is not Ruling.MORE or self.steered:
                return Validated(measured, episodes, judgement, checks)


def _voided(episodes: Sequence[Episode], checks: Sequence[CandidateCheck]) -> Judgement | None:
    """Return why the rollouts say nothing about the rate: a hook failed, or the verdicts cannot be believed."""
    if fault := component_fault(episodes):
        return Judgement(Ruling.REJECT, Verdict("component_fault", f"the batch is void, {fault}"))
    if failed := first_failed(checks):
        name = "verifier_drift" if verdict_of(checks) == "verifier_drift" else "check_failed"
        return Judgement(Ruling.REJECT, Verdict(name, f"check {failed.id} failed: {failed.detail}"))
    return None
