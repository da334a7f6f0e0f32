"""The values that cross the boundary between a policy, a stack of components and an environment.

All are Pydantic models, plain JSON underneath, so that they can be stored, sent to a hook process and shown.
"""

from __future__ import annotations

import json
from typing import Literal

from pydantic import BaseModel, ConfigDict, Field, JsonValue

JsonDict = dict[str, JsonValue]
"""A JSON object."""


class Action(BaseModel):
    """One tool call: the tool's name and its keyword arguments."""

    model_config = ConfigDict(extra="forbid")

    name: str
    kwargs: JsonDict = Field(default_factory=dict)
    replayed: bool = Field(default=False, exclude_if=lambda replayed: not replayed)
    """True while a Stage replays the action. Set by the Stage alone: an engine clears it on what a policy sends."""

    def __str__(self) -> str:
        """Write the action as a call with JSON values: `combine(left="8", right=3)`."""
        # The standard library's encoder, because arguments may hold integers of more than 64 bits.
        values = {key: json.dumps(value, ensure_ascii=False, default=repr) for key, value in self.kwargs.items()}
        return f"{self.name}({', '.join(f'{key}={value}' for key, value in values.items())})"


class Blocked(BaseModel):
    """What `filter_action` returns to refuse an action. The environment is left untouched."""

    model_config = ConfigDict(extra="forbid")

    reason: str


class Observation(BaseModel):
    """What a policy sees: `text` for reading, `data` for programs (same content, structured)."""

    model_config = ConfigDict(extra="forbid")

    text: str
    data: JsonDict = Field(default_factory=dict)

    def below(self, notice: str) -> Observation:
        """Return a copy with `notice` above the text: how a call that did nothing is answered."""
        return Observation(text=f"{notice}\n\n{self.text}", data=dict(self.data))


class ResetResponse(BaseModel):
    """What `reset` returns."""

    observation: Observation
    info: JsonDict = Field(default_factory=dict)


class EnvResponse(BaseModel):
    """What `step` returns: the Gymnasium five.

    `info` is for programs and is never shown to a policy. Keys with a meaning of their own:
    `refused` (str): the environment did not accept the call (unknown tool, missing or ill-typed argument);
    `blocked` (str): a Contract refused it, nothing happened;
    `ineffective` (bool): the environment accepted it and nothing changed.
    """

    observation: Observation
    reward: float = 0.0
    terminated: bool = False
    truncated: bool = False
    info: JsonDict = Field(default_factory=dict)


class EvaluationResult(BaseModel):
    """The verifier's word on the episode so far. `score` lies in [0, 1]; `success` is the benchmark's own criterion."""

    success: bool
    score: float = Field(ge=0.0, le=1.0)
    metrics: JsonDict = Field(default_factory=dict)


class StepInfo(BaseModel):
    """What a dense reward may look at: one step with the state on either side of it."""

    action: Action
    response: EnvResponse
    state_before: JsonDict
    state_after: JsonDict
    step: int
    """0-based number of the step in the episode."""


class ToolSchema(BaseModel):
    """One tool as a model provider expects it. `parameters` is a JSON schema of type object."""

    name: str
    description: str = ""
    parameters: JsonDict = Field(default_factory=dict)


class Capabilities(BaseModel):
    """What a bridge declares about itself. The conformance checks hold it to its word."""

    model_config = ConfigDict(frozen=True)

    state: Literal["full", "episode_boundary"] = "episode_boundary"
    """`full`: save_state() restores the middle of an episode; `episode_boundary`: only what reset needs."""
    reversible: bool = True
    """False where reset cannot undo what an episode did. The rigger refuses such an environment."""
    resumable: bool = False
    """True where a termination can be taken back by `resume()`."""
    fork_safe: bool = False
    """True where a forked child may go on with the episode."""
    thread_safe: bool = False
    """True where two instances may run on two threads of one process."""
    isolated: bool = True
    """False where instances share a backend, so that parallel rollouts disturb each other."""
    volatile_state_keys: tuple[str, ...] = ()
    """Top-level keys of the state that may differ between identical runs (times, ids)."""
    seeded: bool = True
    """False where the seed of reset changes nothing, as in a fixed game; True: another seed gives another start."""
    step_limit_option: bool = False
    """True where reset takes the option `max_steps`, which replaces the own step limit for that episode."""
