"""The plan of one task: a generator that yields batches and model calls, is sent their outcomes, and decides.

It holds no engine, client, store or clock. Sent the same replies it yields the same requests, so a run that was killed
is brought back to where it was by sending it what the store holds.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import partial
from itertools import count

from envharness.components.fingerprints import with_fingerprints
from envharness.core.canonical import canonical_json
from envharness.core.messages import counted
from envharness.core.trace import Episode
from envharness.rigger.batches import TaskBatches
from envharness.rigger.checks import verdict_of
from envharness.rigger.config import RigConfig
from envharness.rigger.designers.base import AnyDesigner, DesignAttempt, Designer, Evidence, Proposal, steers
from envharness.rigger.diagnose import diagnose
from envharness.rigger.failure_shifts import compare_failures
from envharness.rigger.free_checks import FreeChecks
from envharness.rigger.gate import Gate
from envharness.rigger.measurement import measure
from envharness.rigger.objectives import Objective
from envharness.rigger.observe import TaskView, policy_wins
from envharness.rigger.records import (
    Candidate,
    CandidateCheck,
    Diagnosis,
    Direction,
    FailureLabel,
    Measurement,
    Round,
    TaskResult,
)
from envharness.rigger.requests import Batch, Work, play
from envharness.rigger.validation import Validation
from envharness.rigger.validity import check_rollouts, first_failed
from envharness.statistics.rules import Ruling

TaskPlan = Work[TaskResult]


@dataclass(frozen=True)
class _Stop:
    """Why the rounds end before one is accepted and before all are used up."""

    reason: str
    invalid: bool = False


@dataclass(frozen=True)
class TaskPlanner:
    """Plans one task for one designer."""

    view: TaskView
    config: RigConfig
    objective: Objective
    designer_id: str
    designer: AnyDesigner
    unsafe_hooks: bool = False

    @property
    def batches(self) -> TaskBatches:
        """The task's batches."""
        return TaskBatches(self.view, self.config, self.designer_id)

    def plan(self) -> TaskPlan:
        """Observe, decide the direction, design, and re-measure where the configuration asks for it."""
        result = yield from self._rig()
        if self.config.remeasure and result.status != "invalid":
            before, _ = yield from _measured(self.batches.remeasured_before())
            after = before
            if result.final_stack != result.base_stack:
                after, _ = yield from _measured(self.batches.remeasured_after(result.final_stack))
            result = result.model_copy(update={"before": before, "remeasured": after})
        return result

    def _rig(self) -> TaskPlan:
        base = self.view.base_stack
        measured, episodes = yield from _measured(self.batches.baseline())
        result = TaskResult(
            task=self.view.task, status="rejected", base_stack=base, final_stack=base, baseline=measured
        )
        if not measured.complete:
            reason = f"baseline: {measured.valid} of {measured.asked} rollouts are valid{_first_cause(episodes)}"
            return result.model_copy(update={"status": "invalid", "reason": reason})
        if failed := first_failed(check_rollouts(episodes)):
            reason = f"check {failed.id} failed without any component of this run: {failed.detail}"
            return result.model_copy(update={"reason": reason})
        direction = self.objective.direction(measured)
        if direction is None and not self.config.sharpen:
            diagnosis = diagnose(episodes, self.view.tools, measured, "sharpen")
            reason = f"success rate {measured.success_rate or 0.0:.2f} is in the band already; left as it is"
            update = {"status": "in_band_already", "reason": reason, "diagnosis": diagnosis}
            return result.model_copy(update=update)
        return (yield from self._design(result, episodes, direction or "sharpen"))

    def _design(self, result: TaskResult, episodes: tuple[Episode, ...], direction: Direction) -> TaskPlan:
        """Go through the rounds until one is accepted, the designer gives up, or none is left."""
        evidence = self._evidence(result.baseline, episodes, direction)
        labels = yield from self._label(evidence, episodes, 0)
        evidence = replace(evidence, failures=tuple(labels or ()))
        stop = _Stop(f"not accepted within {counted(self.config.rounds, 'round')}")
        gate = Gate(self.config, self.objective, result.baseline, direction)
        for number in count(1) if self._steers else range(1, self.config.rounds + 1):
            if not gate.batch_size(evidence.rounds, 0):
                stop = _Stop(f"not accepted within {gate.paid(evidence.rounds)} rollouts")
                break
            if _unchecked(evidence) >= self.config.rounds:
                stop = _Stop("free checks could not be carried out", invalid=True)
                break
            evidence, entry = yield from self._round(evidence, gate, number)
            if isinstance(entry, _Stop):
                stop = entry
                break
            if entry.decision == "accept":
                update = {
                    "status": "accepted",
                    "reason": entry.feedback,
                    "final_stack": with_fingerprints(entry.candidate.apply(result.base_stack), evidence.latest),
                    "accepted_round": number,
                }
                return self._concluded(result, evidence).model_copy(update=update)
        undecided = len({entry.number for entry in evidence.rounds if entry.verdict == "incomplete"})
        reason = stop.reason
        if undecided:
            reason = (
                f"{counted(undecided, 'round')} incomplete because rollouts failed on the machinery's side; {reason}"
            )
        status = "invalid" if undecided or stop.invalid else "rejected"
        return self._concluded(result, evidence).model_copy(update={"status": status, "reason": reason})

    def _concluded(self, result: TaskResult, evidence: Evidence) -> TaskResult:
        """Add what the rounds left behind. A designer's own diagnosis stands before the measured one."""
        written = evidence.rounds[-1].diagnosis if evidence.rounds and self._asks else None
        update = {
            "diagnosis": written or evidence.diagnosis,
            "rounds": list(evidence.rounds),
            "failures": list(evidence.failures),
        }
        return result.model_copy(update=update)

    def _round(self, evidence: Evidence, gate: Gate, number: int) -> Work[tuple[Evidence, Round | _Stop]]:
        """Write and validate once. Candidates that fail a free check are written anew, a bounded number of times."""
        entry: Round | _Stop = _Stop("no attempt is allowed")
        for attempt in range(self.config.check_retries + 1):
            proposal = yield from self._propose(evidence, number, attempt)
            if proposal.unanswered or proposal.gave_up:
                return evidence, _Stop(proposal.unanswered or proposal.gave_up, invalid=bool(proposal.unanswered))
            candidate = self._seeded(proposal.candidate or Candidate())
            diagnosis = proposal.diagnosis or self._current_diagnosis(evidence)
            checks = yield from self._check(evidence, proposal, candidate, number)
            written = {"diagnosis": diagnosis, "prediction": proposal.prediction}
            if not (verdict := verdict_of(checks)):
                entry, latest = yield from self._validate(evidence, gate, candidate, checks, number)
                entry = entry.model_copy(update=written)
                entry = yield from self._analyse(evidence, entry, latest)
                return _with(evidence, entry, latest), entry
            failed = next(check for check in checks if not check.passed)
            entry = Round(
                number=number,
                candidate=candidate,
                checks=checks,
                decision="refine",
                verdict=verdict,
                feedback=f"check {failed.id} failed: {failed.detail}",
            ).model_copy(update=written)
            evidence = _with(evidence, entry, evidence.latest)
        return evidence, entry

    # --- the designer ------------------------------------------------------------------------------------------------

    @property
    def _asks(self) -> bool:
        return not isinstance(self.designer, Designer)

    @property
    def _steers(self) -> bool:
        return steers(self.designer, self.config.acceptance)

    def _propose(self, evidence: Evidence, number: int, attempt: int) -> Work[Proposal]:
        """Let the designer write, at once or by asking."""
        if not isinstance(self.designer, Designer):
            return (yield from self.designer.write(evidence, self._attempt(number, attempt)))
        candidate = self.designer.propose(evidence)
        return Proposal(candidate, gave_up="" if candidate else "the designer has nothing more to try")

    def _label(
        self, evidence: Evidence, episodes: Sequence[Episode], number: int
    ) -> Work[tuple[FailureLabel, ...] | None]:
        """Have the losses of a batch labelled; None where the designer does not, or could not."""
        if isinstance(self.designer, Designer):
            return None
        if all(episode.success for episode in episodes):
            return ()
        return (yield from self.designer.label_failures(evidence, episodes, self._attempt(number, 0)))

    def _analyse(self, evidence: Evidence, entry: Round, episodes: Sequence[Episode]) -> Work[Round]:
        """Add to a measured round, which is decided by now, how it was lost and whether that was expected."""
        labels = yield from self._label(evidence, episodes, entry.number)
        if labels is None:
            return entry
        shifts = compare_failures(entry.prediction, evidence.failures, labels)
        return entry.model_copy(update={"failures": list(labels), "shifts": shifts})

    def _attempt(self, number: int, attempt: int) -> DesignAttempt:
        return DesignAttempt(self.designer_id, number, attempt, partial(self.batches.stage_probe, number))

    # --- the verdict -------------------------------------------------------------------------------------------------

    def _seeded(self, candidate: Candidate) -> Candidate:
        """Give the hooks their random stream, the same whenever the candidate is played: it is one fixed world."""
        content = canonical_json(candidate.model_dump(mode="json", include={"in_env_actions", "contract_source"}))
        return candidate.model_copy(update={"contract_seed": self.batches.seeds.contract(content)})

    def _check(
        self, evidence: Evidence, proposal: Proposal, candidate: Candidate, number: int
    ) -> Work[list[CandidateCheck]]:
        """Make the free checks. A candidate that was played before has passed them."""
        if proposal.candidate is None:
            return [CandidateCheck(id="answer", passed=False, detail=proposal.problem)]
        if any(entry.measured is not None and entry.candidate == candidate for entry in evidence.rounds):
            return []
        return (yield from FreeChecks(self.batches, evidence.baseline, self.unsafe_hooks).run(candidate, number))

    def _validate(
        self, evidence: Evidence, gate: Gate, candidate: Candidate, checks: list[CandidateCheck], number: int
    ) -> Work[tuple[Round, tuple[Episode, ...]]]:
        """Pay for fresh rollouts and write down what the gate says of them."""
        found = yield from Validation(self.batches, gate, self._steers).run(candidate, evidence.rounds, number)
        accepts = found.judgement.ruling is Ruling.ACCEPT
        last = number == self.config.rounds and not self._steers
        entry = Round(
            number=number,
            candidate=candidate,
            checks=[*checks, *found.checks],
            measured=found.measured,
            belief=found.judgement.belief,
            decision="accept" if accepts else "reject" if last else "refine",
            verdict=found.judgement.verdict.name,
            feedback=found.judgement.verdict.feedback,
        )
        return entry, found.episodes

    def _current_diagnosis(self, evidence: Evidence) -> Diagnosis:
        """Return what the latest complete rollouts show; those of the baseline until a candidate was measured."""
        last = next((e for e in reversed(evidence.rounds) if e.measured is not None), None)
        if last is None or last.measured is None or not last.measured.complete:
            return evidence.diagnosis
        return diagnose(evidence.latest, self.view.tools, last.measured, evidence.direction)

    def _evidence(self, measured: Measurement, episodes: tuple[Episode, ...], direction: Direction) -> Evidence:
        wins = policy_wins(episodes)
        if not wins and self.config.scaffold_from_reference and self.view.reference:
            wins = (self.view.reference,)
        return Evidence(
            task=self.view.task,
            seed=self.batches.seeds.design,
            direction=direction,
            band=self.config.band,
            acceptance=self.config.acceptance,
            max_steps=self.config.limits.max_steps,
            tools=self.view.tools,
            state_schema=self.view.state_schema,
            baseline=episodes,
            measured=measured,
            diagnosis=diagnose(episodes, self.view.tools, measured, direction),
            wins=wins,
        )


def _measured(batch: Batch) -> Work[tuple[Measurement, tuple[Episode, ...]]]:
    """Play a batch; return its figures and its episodes."""
    episodes = tuple((yield from play(batch)))
    return measure(episodes, [job.key for job in batch.jobs]), episodes


def _unchecked(evidence: Evidence) -> int:
    """Return the rounds that ended because our side could not check a candidate."""
    return len({e.number for e in evidence.rounds if e.verdict == "incomplete" and e.measured is None})


def _with(evidence: Evidence, entry: Round, latest: tuple[Episode, ...]) -> Evidence:
    return replace(evidence, rounds=(*evidence.rounds, entry), latest=latest)


def _first_cause(episodes: Sequence[Episode]) -> str:
    bad = next((episode for episode in episodes if not episode.valid), None)
    return "" if bad is None else f" ({bad.outcome.reason}: {bad.outcome.detail})"
