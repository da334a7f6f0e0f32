"""A rollout to run: everything that decides its content, frozen and picklable."""

from __future__ import annotations

from collections.abc import Mapping
from functools import cached_property
from typing import Any, Self

from pydantic import BaseModel, ConfigDict, Field

from envharness.core.canonical import digest
from envharness.core.policy import PolicySpec
from envharness.core.spec import StackSpec


class Limits(BaseModel):
    """What one episode may use. Steps, tokens and bytes are the policy's own limits; seconds are the machinery's."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    max_steps: int = Field(default=50, ge=1)
    """Policy turns, blocked and refused ones included. Reaching it is a failure, `out_of_steps`."""
    policy_tokens: int | None = Field(default=None, ge=1)
    """Completion tokens of the policy; None is no limit. Reaching it is a failure, `token_limit`."""
    observation_bytes: int | None = Field(default=None, ge=1, exclude_if=lambda limit: limit is None)
    """Bytes of observation text, as UTF-8, that the policy is shown in the episode, the first observation included;
    None is no limit. Looked at after each turn; going beyond it is a failure, `observation_limit`."""
    episode_seconds: float = Field(default=600.0, gt=0, le=1e9)
    """Wall clock of an episode. Reaching it makes the episode invalid, `time_limit`. In the pool it starts when the
    environment's thread takes the episode up; what a turn waits for that thread or for a model counts."""
    step_seconds: float = Field(default=60.0, gt=0, le=1e9)
    """Wall clock of one environment call. Reaching it makes the episode invalid, `time_limit`."""


class RolloutJob(BaseModel):
    """One episode to play: stack (which names its own task), policy, seeds and limits."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    task: str
    """The task's id, for records; the stack's environment node holds the task that is played."""
    stack: StackSpec
    policy: PolicySpec
    env_seed: int
    """Constant per (run, task): the world is the same in every rollout."""
    policy_seed: int
    """Different in every rollout."""
    index: int = Field(default=0, ge=0)
    """Which of the K rollouts of its batch this is."""
    limits: Limits = Limits()
    record_states: bool = True
    """Whether the trace keeps the state after each turn (a designer's dry run needs it)."""

    @cached_property
    def key(self) -> str:
        """The job's identity: equal jobs, and only they, have equal keys. 32 hexadecimal digits."""
        return digest(self.model_dump(mode="json"), 32)

    def model_copy(self, *, update: Mapping[str, Any] | None = None, deep: bool = False) -> Self:
        """Copy, with changes; the copy's key is its own, where Pydantic would carry the cached one over."""
        copied = super().model_copy(update=update, deep=deep)
        vars(copied).pop("key", None)
        return copied
