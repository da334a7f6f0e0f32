"""The plan of one task: a generator that yields batches and model calls, is sent their outcomes, and decides.

It holds no engine, client, store or clock. Sent the same replies it yields the same requests, so a run that was killed
is brought back to where it was by sending it what the store holds.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

from envharness.core.errors import SpecError
from envharness.core.messages import counted
from envharness.core.spec import StackSpec
from envharness.core.trace import Episode
from envharness.core.types import Action
from envharness.rigger.checks import check_compiles, check_dry_run, check_probes, check_solvable, verdict_of
from envharness.rigger.config import RigConfig
from envharness.rigger.designers.base import AnyDesigner, Bench, Designer, Evidence, Proposal
from envharness.rigger.diagnose import diagnose
from envharness.rigger.failures import compare_failures
from envharness.rigger.objectives import Objective
from envharness.rigger.observe import TaskView, policy_wins
from envharness.rigger.probes import probe
from envharness.rigger.records import (
    NULL_DESIGNER,
    Candidate,
    CheckResult,
    Diagnosis,
    Direction,
    FailureLabel,
    Measurement,
    Round,
    TaskResult,
)
from envharness.rigger.requests import Batch, Call, Work, play
from envharness.rigger.seeds import TaskSeeds
from envharness.rigger.statistics import component_fault, measure
from envharness.rollouts.job import Limits, RolloutJob

__all__ = ["Batch", "Call", "TaskPlan", "TaskPlanner", "witnesses"]

TaskPlan = Work[TaskResult]
CheckPlan = Work[list[CheckResult]]

MAX_WITNESSES = 4
"""Known wins tried through a candidate before it counts as unsolvable."""
IDLE_TURNS = 12
"""Turns of the probe that calls nothing that exists."""


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
    def seeds(self) -> TaskSeeds:
        """The task's seeds."""
        return TaskSeeds(self.config.seed, self.view.task, self.designer_id)

    @property
    def is_null(self) -> bool:
        """Whether the designer is the null, which changes nothing by definition."""
        return self.designer_id == NULL_DESIGNER

    # --- the plan ----------------------------------------------------------------------------------------------------

    def plan(self) -> TaskPlan:
        """Observe, decide the direction, design, and re-measure where the configuration asks for it."""
        result = yield from self._rig()
        if self.config.remeasure and result.status != "invalid":
            before = yield from self._measure("remeasure/before", result.base_stack, self.seeds.before)
            after = before
            if result.final_stack != result.base_stack:
                phase = f"remeasure/{self.designer_id}"
                after = yield from self._measure(phase, result.final_stack, self.seeds.after)
            result = result.model_copy(update={"before": before, "remeasured": after})
        return result

    def _rig(self) -> TaskPlan:
        base = self.view.base_stack
        batch = self._policy_batch("rig/baseline", base, self.seeds.baseline, self.config.rollouts)
        episodes = tuple((yield from play(batch)))
        measured = measure(episodes, [job.key for job in batch.jobs])
        result = TaskResult(
            task=self.view.task, status="rejected", base_stack=base, final_stack=base, baseline=measured
        )
        if not measured.complete:
            reason = f"baseline: {measured.valid} of {measured.asked} rollouts are valid{_first_cause(episodes)}"
            return result.model_copy(update={"status": "invalid", "reason": reason})
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
        for number in range(1, self.config.rounds + 1):
            evidence, entry = yield from self._round(evidence, number)
            if isinstance(entry, _Stop):
                stop = entry
                break
            if entry.decision == "accept":
                update = {
                    "status": "accepted",
                    "reason": entry.feedback,
                    "final_stack": entry.candidate.apply(result.base_stack),
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

    def _round(self, evidence: Evidence, number: int) -> Work[tuple[Evidence, Round | _Stop]]:
        """Write and validate once. Candidates that fail a free check are written anew, a bounded number of times."""
        entry: Round | _Stop = _Stop("no attempt is allowed")
        for attempt in range(self.config.check_retries + 1):
            proposal = yield from self._propose(evidence, number, attempt)
            if proposal.lost or proposal.gave_up:
                return evidence, _Stop(proposal.lost or proposal.gave_up, invalid=bool(proposal.lost))
            candidate = (proposal.candidate or Candidate()).model_copy(
                update={"contract_seed": self.seeds.contract(number, attempt)}
            )
            diagnosis = proposal.diagnosis or self._current_diagnosis(evidence)
            checks = (
                [CheckResult(id="answer", passed=False, detail=proposal.problem)]
                if proposal.candidate is None
                else (yield from self._check(evidence, candidate, number))
            )
            written = {"diagnosis": diagnosis, "prediction": proposal.prediction}
            if not (verdict := verdict_of(checks)):
                entry, latest = yield from self._validate(evidence, candidate, checks, number)
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

    def _propose(self, evidence: Evidence, number: int, attempt: int) -> Work[Proposal]:
        """Let the designer write, at once or by asking."""
        if not isinstance(self.designer, Designer):
            return (yield from self.designer.write(evidence, self._bench(number, attempt)))
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
        return (yield from self.designer.label_failures(evidence, episodes, self._bench(number, 0)))

    def _analyse(self, evidence: Evidence, entry: Round, episodes: Sequence[Episode]) -> Work[Round]:
        """Add to a measured round, which is decided by now, how it was lost and whether that was expected."""
        labels = yield from self._label(evidence, episodes, entry.number)
        if labels is None:
            return entry
        shifts = compare_failures(entry.prediction, evidence.failures, labels)
        return entry.model_copy(update={"failures": list(labels), "shifts": shifts})

    def _bench(self, number: int, attempt: int) -> Bench:
        def stage_probe(actions: Sequence[Action]) -> Batch:
            stack = Candidate(in_env_actions=list(actions)).apply(self.view.base_stack)
            job = self._probe_job(stack, (), 0).model_copy(update={"record_states": True})
            return self._probe_batch(f"rig/{self.designer_id}/explore-{number}", [job])

        return Bench(self.designer_id, number, attempt, stage_probe)

    # --- the verdict -------------------------------------------------------------------------------------------------

    def _validate(
        self, evidence: Evidence, candidate: Candidate, checks: list[CheckResult], number: int
    ) -> Work[tuple[Round, tuple[Episode, ...]]]:
        """Pay for K fresh rollouts and decide from their aggregate."""
        stack = candidate.apply(self.view.base_stack)

        def seed(index: int) -> int:
            return self.seeds.round(number, index)

        batch = self._policy_batch(f"rig/{self.designer_id}/round-{number}", stack, seed, self.config.rollouts)
        episodes = tuple((yield from play(batch)))
        measured = measure(episodes, [job.key for job in batch.jobs])
        if fault := component_fault(episodes):
            verdict, feedback, accepts = "component_fault", f"the batch is void, {fault}", False
        else:
            judged = self.objective.judge(evidence.measured, measured, evidence.direction)
            verdict, feedback, accepts = judged.name, judged.feedback, judged.accepts
        last = number == self.config.rounds
        entry = Round(
            number=number,
            candidate=candidate,
            checks=checks,
            measured=measured,
            decision="accept" if accepts else "reject" if last else "refine",
            verdict=verdict,
            feedback=feedback,
        )
        return entry, episodes

    # --- the free checks ---------------------------------------------------------------------------------------------

    def _check(self, evidence: Evidence, candidate: Candidate, number: int) -> CheckPlan:
        """Run the free checks in order of cost, up to the first that fails."""
        if not candidate.contract_source and not candidate.in_env_actions:
            detail = "the null changes nothing by definition" if self.is_null else "the candidate is empty"
            return [CheckResult(id="changes_something", passed=self.is_null, detail=detail)]
        checks: list[CheckResult] = []
        if candidate.contract_source:
            checks.append(check_compiles(candidate, unsafe=self.unsafe_hooks))
            if verdict_of(checks):
                return checks
        checks += check_dry_run(candidate, evidence.baseline, unsafe=self.unsafe_hooks)
        if verdict_of(checks):
            return checks
        try:
            stack = candidate.apply(self.view.base_stack)
        except SpecError as error:
            return [*checks, CheckResult(id="replays", passed=False, detail=str(error))]
        phase = f"rig/{self.designer_id}/check-{number}"
        idle = self.config.limits.model_copy(update={"max_steps": min(IDLE_TURNS, self.config.limits.max_steps)})
        jobs = [self._probe_job(stack, (), 0), self._probe_job(stack, (), 1, limits=idle, then_idle=True)]
        stop, nothing = yield from play(self._probe_batch(phase, jobs))
        checks += check_probes(stop, nothing)
        if verdict_of(checks):
            return checks
        return checks + (yield from self._check_witnesses(candidate, stack, phase, evidence))

    def _check_witnesses(self, candidate: Candidate, stack: StackSpec, phase: str, evidence: Evidence) -> CheckPlan:
        """Play the known wins through the candidate until one verifies."""
        known = witnesses(candidate, self.view.reference, policy_wins(evidence.baseline))
        tried: list[Episode] = []
        for index, actions in enumerate(known[:MAX_WITNESSES]):
            tried += yield from play(self._probe_batch(phase, [self._probe_job(stack, actions, index)]))
            if tried[-1].success:
                break
        return [check_solvable(tried)] if tried else []

    # --- jobs --------------------------------------------------------------------------------------------------------

    def _measure(self, phase: str, stack: StackSpec, seed: Callable[[int], int]) -> Work[Measurement]:
        batch = self._policy_batch(phase, stack, seed, self.config.remeasure, record_states=False)
        episodes = yield from play(batch)
        return measure(episodes, [job.key for job in batch.jobs])

    def _policy_batch(
        self, phase: str, stack: StackSpec, seed: Callable[[int], int], count: int, *, record_states: bool = True
    ) -> Batch:
        jobs = tuple(
            RolloutJob(
                task=self.view.task,
                stack=stack,
                policy=self.config.policy,
                env_seed=self.seeds.env,
                policy_seed=seed(index),
                index=index,
                limits=self.config.limits,
                record_states=record_states,
            )
            for index in range(count)
        )
        return Batch(phase, jobs)

    def _probe_batch(self, phase: str, jobs: Sequence[RolloutJob]) -> Batch:
        return Batch(phase, tuple(jobs), paid=False)

    def _probe_job(
        self,
        stack: StackSpec,
        actions: Sequence[Action],
        index: int,
        *,
        limits: Limits | None = None,
        then_idle: bool = False,
    ) -> RolloutJob:
        return RolloutJob(
            task=self.view.task,
            stack=stack,
            policy=probe(actions, then="idle" if then_idle else "stop"),
            env_seed=self.seeds.env,
            policy_seed=0,
            index=index,
            limits=limits or self.config.limits,
            record_states=False,
        )

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
            seed=self.seeds.design,
            direction=direction,
            band=self.config.band,
            max_steps=self.config.limits.max_steps,
            tools=self.view.tools,
            state_schema=self.view.state_schema,
            baseline=episodes,
            measured=measured,
            diagnosis=diagnose(episodes, self.view.tools, measured, direction),
            wins=wins,
        )


def witnesses(
    candidate: Candidate, reference: Sequence[Action] | None, wins: Sequence[Sequence[Action]]
) -> list[tuple[Action, ...]]:
    """Return action lists that should win through the candidate, the most telling first, each once.

    A Stage moves the start along `prefix`: where a known win begins with it, its rest must still win. A candidate may
    name actions that its own conditions ask for first (parameter `opens_with`).
    """
    known = ([tuple(reference)] if reference else []) + [tuple(win) for win in wins]
    prefix = tuple(candidate.in_env_actions)
    rests = [win[len(prefix) :] for win in known if prefix and win[: len(prefix)] == prefix]
    opening = candidate.parameters.get("opens_with")
    opened = tuple(Action.model_validate(action) for action in opening) if isinstance(opening, list) else ()
    options = [*rests, *((*opened, *win) for win in known if opened), *known]
    return [actions for index, actions in enumerate(options) if actions not in options[:index]]


def _with(evidence: Evidence, entry: Round, latest: tuple[Episode, ...]) -> Evidence:
    return replace(evidence, rounds=(*evidence.rounds, entry), latest=latest)


def _first_cause(episodes: Sequence[Episode]) -> str:
    bad = next((episode for episode in episodes if not episode.valid), None)
    return "" if bad is None else f" ({bad.outcome.reason}: {bad.outcome.detail})"
