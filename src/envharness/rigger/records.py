"""What a rigging run writes down: diagnosis, candidate, verdict and measurement, task by task."""

from __future__ import annotations

from typing import Literal

from pydantic import BaseModel, ConfigDict, Field, JsonValue

from envharness.core.spec import StackSpec
from envharness.core.types import Action

Direction = Literal["harden", "scaffold", "sharpen"]
Decision = Literal["accept", "refine", "reject"]
TaskStatus = Literal["accepted", "in_band_already", "rejected", "invalid"]

NULL_DESIGNER = "identity"
"""Id of the designer that every share is read against: its component does nothing."""


class Measurement(BaseModel):
    """Outcomes of one batch of rollouts, in index order. Rates are over the valid ones."""

    model_config = ConfigDict(frozen=True)

    asked: int
    valid: int
    successes: int
    out_of_steps: int = 0
    blocked_turns: int = 0
    turns: int = 0
    mean_steps: float = 0.0
    episodes: tuple[str, ...] = ()
    """Job keys, in index order."""

    @property
    def success_rate(self) -> float | None:
        """Share of valid rollouts won, or None where there is none."""
        return self.successes / self.valid if self.valid else None

    @property
    def complete(self) -> bool:
        """Whether every rollout asked for is valid. A decision is never made on less."""
        return self.valid == self.asked


class Diagnosis(BaseModel):
    """What is wrong with the policy on this task, in words, and what to do about it."""

    flaw: str
    """Name of the weakness, stable across tasks, such as `repeats_actions`; `none` where nothing stands out."""
    text: str
    """The diagnosis for a reader."""
    direction: Direction
    evidence: list[str] = Field(default_factory=list[str])
    """Where it shows: `rollout 2, steps 4-9: ...`."""
    scores: dict[str, float] = Field(default_factory=dict)
    """Strength of every flaw looked for, 0 to 1."""


FailureAxis = Literal["perception", "memory", "planning", "action", "persistence", "limits", "component", "other"]
"""Where a failure lies: what it saw, what it kept in mind, what it chose, how it wrote it, when it gave up or went in
circles, steps and tokens used up, the component itself, or none of these."""


class FailureLabel(BaseModel):
    """A model's reading of one lost rollout. It informs what is written next and decides nothing."""

    rollout: int = Field(ge=0)
    axis: FailureAxis
    label: str
    """A short name, the same for the same failure."""
    sentence: str = ""


class PredictedChange(BaseModel):
    """One kind of failure that a designer expects more or less of than in the baseline."""

    axis: FailureAxis
    label: str
    change: Literal["more", "fewer", "same"]


class Prediction(BaseModel):
    """What a designer expects of its candidate, written before a rollout is played."""

    success_rate: float | None = Field(default=None, ge=0.0, le=1.0)
    failures: list[PredictedChange] = Field(default_factory=list[PredictedChange])


class FailureShift(BaseModel):
    """A kind of failure: how often in the baseline, how often in the round, and what was expected."""

    axis: FailureAxis
    label: str
    before: int
    after: int
    predicted: Literal["more", "fewer", "same"] | None
    """None where the designer said nothing about it."""
    observed: Literal["more", "fewer", "same"]


class Candidate(BaseModel):
    """A component proposed: actions for a Stage, source for a Contract. Both empty is the identity."""

    in_env_actions: list[Action] = Field(default_factory=list[Action])
    contract_source: str = ""
    contract_seed: int = 0
    template: str = ""
    """Which template it came from; empty where a model wrote it."""
    magnitude: float | None = None
    """How strong it is, 0 (none) to 1 (most); None where it has no magnitude."""
    parameters: dict[str, JsonValue] = Field(default_factory=dict)
    answers: str = ""
    """The flaw it answers; `none` where it answers none that stands out. Empty where the designer does not say: then it
    is that of the diagnosis it was written on."""
    rationale: str = ""
    """Why this should move the success rate into the band."""

    def apply(self, stack: StackSpec) -> StackSpec:
        """Return `stack` with this candidate on it: Stage first, then Contract."""
        if self.in_env_actions:
            stack = stack.wrap("stage", actions=[action.model_dump(mode="json") for action in self.in_env_actions])
        if self.contract_source:
            stack = stack.wrap("contract", source=self.contract_source, seed=self.contract_seed)
        return stack


class CandidateCheck(BaseModel):
    """One check of a candidate: free, and made before any rollout is paid for; `verdict_agrees` again after them."""

    id: str
    """answer (a model's answer holds a candidate), compiles, replays, dry_run, changes_something, no_op_fails,
    stop_fails, one_start, verdict_agrees, reference_solves; `machinery` where our side could not carry a check out."""
    passed: bool
    detail: str = ""


class Belief(BaseModel):
    """What was believed of a candidate when a rule of probabilities looked."""

    model_config = ConfigDict(frozen=True)

    probability: float = Field(ge=0.0, le=1.0)
    """That its true success rate is on target."""
    rate: float
    """Expected, with the ends of its 95 % credible interval."""
    low: float
    high: float
    rollouts: int
    """All that it rests on; those at other magnitudes included, where one response curve joins them."""


class Round(BaseModel):
    """One write-validate round."""

    number: int
    candidate: Candidate
    diagnosis: Diagnosis | None = None
    """What the candidate was written on: the baseline's diagnosis in the first round, later that of the latest rollouts
    on a candidate."""
    checks: list[CandidateCheck] = Field(default_factory=list[CandidateCheck])
    measured: Measurement | None = None
    """None where a free check failed, so that no rollout was paid for."""
    belief: Belief | None = None
    """None under the method's rule, and where nothing complete was measured."""
    decision: Decision
    verdict: str = ""
    """in_band, too_easy, too_hard, no_movement, unsolvable, verifier_drift, component_fault, check_failed,
    incomplete, or undecided (the rate looks right, but not surely enough)."""
    feedback: str = ""
    """What the next round is told."""
    prediction: Prediction | None = None
    """What the designer expected; None where it predicts nothing."""
    failures: list[FailureLabel] = Field(default_factory=list[FailureLabel])
    """The lost rollouts as the designer reads them; empty where it does not, or nothing was lost."""
    shifts: list[FailureShift] = Field(default_factory=list[FailureShift])
    """Predicted and observed failures side by side; empty where the losses were not labelled."""


class TaskResult(BaseModel):
    """Everything about one task of a rigging run."""

    task: str
    status: TaskStatus
    reason: str = ""
    base_stack: StackSpec
    final_stack: StackSpec
    """The accepted stack; the base stack where nothing was accepted."""
    baseline: Measurement
    diagnosis: Diagnosis | None = None
    rounds: list[Round] = Field(default_factory=list[Round])
    accepted_round: int | None = None
    failures: list[FailureLabel] = Field(default_factory=list[FailureLabel])
    """The lost rollouts of the baseline as the designer reads them; empty where it does not, or nothing was lost."""
    before: Measurement | None = None
    """Base stack, fresh rollouts that took no part in any decision; None where not asked for."""
    remeasured: Measurement | None = None
    """Final stack, fresh rollouts that took no part in the acceptance; None where not asked for."""


class ShareAudit(BaseModel):
    """What fresh rollouts, which decided nothing, say about the share of tasks truly in the band."""

    model_config = ConfigDict(frozen=True)

    share: float
    """Expected, with the 95 % interval of a bootstrap over tasks. A task without fresh rollouts counts as outside."""
    low: float
    high: float
    ceiling: float
    """What so many rollouts could show if every rate were the middle of the band: each task by itself, flat prior."""
    attainable: float
    """The same through the prior that is fitted to all tasks together, as `share` is."""
    tasks: int
    rollouts: int
    """Fresh rollouts a task."""


class RigSummary(BaseModel):
    """The figures of a run. Every share is over all tasks of the run."""

    tasks: int
    accepted: int
    in_band_before: float
    in_band_after: float
    """As the method counts: by the K rollouts that decided."""
    in_band_remeasured: float | None = None
    """By fresh rollouts; None where none were asked for."""
    rollouts: int
    invalid: int
    seconds: float
    run_dir: str
    designer: str
    identity_in_band_after: float | None = None
    identity_in_band_remeasured: float | None = None
    rollouts_deciding: int = 0
    """Those of the rollouts that decided: baselines and rounds, without the re-measurement."""
    rollouts_a_task: float = 0.0
    """`rollouts_deciding` over all tasks, those that ended without a component included."""
    claimed: float | None = None
    """The mean probability on target with which tasks were accepted; None where no rule of probabilities accepted."""
    audit_accepted: ShareAudit | None = None
    """Of the accepted tasks; None where there is none, or no fresh rollouts were asked for."""
    audit_all: ShareAudit | None = None
    """Of all tasks of the run."""
    suggested_threshold: float | None = None
    """`acceptance.threshold` for the next run: higher than this run's where the audit falls short of the claim."""
