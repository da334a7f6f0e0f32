"""What an episode leaves behind: for each turn, what the policy did and saw, and what reached the environment."""

from __future__ import annotations

from typing import Literal, Protocol

from pydantic import BaseModel, ConfigDict, Field

from envharness.core.types import Action, EnvResponse, EvaluationResult, JsonDict, Observation
from envharness.core.usage import Usage

EventKind = Literal[
    "blocked",
    "rewrote_action",
    "changed_response",
    "changed_observation",
    "ended_episode",
    "resumed_episode",
    "violation",
    "switched_segment",
    "recorded_start",
]
InvalidCause = Literal[
    "component_fault",
    "environment_error",
    "policy_error",
    "provider_refused",
    "time_limit",
    "worker_died",
    "sandbox_error",
    "internal_error",
]


class ComponentEvent(BaseModel):
    """One thing a component did: which one (`contract#0`, innermost first), through which hook, and what."""

    model_config = ConfigDict(frozen=True)

    component: str
    kind: EventKind
    hook: str = ""
    detail: str = ""


class TraceSink(Protocol):
    """Where components report what they do."""

    def event(self, event: ComponentEvent) -> None:
        """Take one event."""
        ...


class _NullSink:
    def event(self, event: ComponentEvent) -> None:
        """Drop it: nobody records."""


NULL_SINK: TraceSink = _NullSink()


class Exchange(BaseModel):
    """What crossed the bottom of the stack in one step: the action that reached the environment, and its answer."""

    segment: str = "0"
    """Which environment: its path through the chains of the stack, `0` where there is none."""
    action: Action
    response: EnvResponse


class SegmentStart(BaseModel):
    """An environment that was reset, and its own first observation."""

    segment: str
    observation: Observation


class TraceStep(BaseModel):
    """One turn of the policy."""

    step: int
    action: Action | None
    """As the policy asked for it; None where it named none."""
    stopped: bool = False
    text: str = ""
    usage: Usage = Usage()
    shown: Observation
    """What the policy was shown in answer."""
    state: JsonDict | None = None
    """The state after the turn, as a Contract on top of this stack would read it; None where not recorded."""
    info: JsonDict = Field(default_factory=dict)
    terminated: bool = False
    truncated: bool = False
    reward: float = 0.0
    """The environment's own reward."""
    dense_reward: float = 0.0
    refused: str = ""
    """Why the environment (or the engine) did not accept the call; empty where it did."""
    blocked: str = ""
    """Why a Contract refused it; empty where none did."""
    raw: list[Exchange] = Field(default_factory=list[Exchange])
    starts: list[SegmentStart] = Field(default_factory=list[SegmentStart])
    """Environments that a Chain reset during the turn."""
    events: list[ComponentEvent] = Field(default_factory=list[ComponentEvent])
    policy_seconds: float = 0.0
    env_seconds: float = 0.0


class StartRecord(BaseModel):
    """The start of an episode: what the policy was shown first, and what a Stage replayed to get there."""

    shown: Observation
    raw: Observation
    """The environment's own first observation, before any Stage or Contract."""
    state: JsonDict | None = None
    """The state before the first turn, as a Contract on top would read it; None where not recorded."""
    replayed: list[Exchange] = Field(default_factory=list[Exchange])
    events: list[ComponentEvent] = Field(default_factory=list[ComponentEvent])
    env_seconds: float = 0.0


class Outcome(BaseModel):
    """How an episode ended.

    `success`: the verifier says so. `failure`: the policy's own; `reason` is out_of_steps, stopped, ended,
    token_limit or observation_limit. `invalid`: not the policy's; `reason` is an InvalidCause. `detail` names the limit
    that ended the episode and its value, and is empty where none did; of an invalid episode it says what went wrong.
    Success rates are over valid episodes, and never silently over fewer than asked for.
    """

    model_config = ConfigDict(frozen=True)

    kind: Literal["success", "failure", "invalid"]
    reason: str = ""
    detail: str = ""


class GoalReading(BaseModel):
    """What the environment reads off its own last state: whether the goal is reached, whatever the verifier says."""

    model_config = ConfigDict(frozen=True)

    reached: bool
    state: JsonDict | None = None
    """The state it was read off, kept where it contradicts the verdict."""


class Episode(BaseModel):
    """One rollout, complete: outcome, verdict and trace."""

    task: str
    index: int = 0
    """Which of the K rollouts of its batch this is."""
    seed: int
    outcome: Outcome
    evaluation: EvaluationResult | None = None
    """The verifier's word; None where the episode is invalid."""
    goal: GoalReading | None = Field(default=None, exclude_if=lambda goal: goal is None)
    """What the last state says of the goal; None where the environment cannot tell, or the episode is invalid."""
    start: StartRecord | None = None
    """None where reset failed."""
    steps: list[TraceStep] = Field(default_factory=list[TraceStep])
    usage: Usage = Usage()
    wasted: Usage = Usage()
    """What earlier attempts at this rollout used, which came to nothing but were paid for."""
    seconds: float = 0.0
    attempt: int = 1
    worker: str = ""
    notes: list[str] = Field(default_factory=list[str])
    """Faults that did not end the episode, such as an exception in the dense reward."""

    @property
    def success(self) -> bool:
        """Whether the verifier called it a success."""
        return self.outcome.kind == "success"

    @property
    def valid(self) -> bool:
        """Whether it says something about the policy."""
        return self.outcome.kind != "invalid"
