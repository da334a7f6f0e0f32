"""The contract of a policy: a black box that is shown an observation and names an action."""

from __future__ import annotations

from collections.abc import Awaitable
from contextlib import suppress
from typing import Any, Protocol, TypeVar, runtime_checkable

from pydantic import BaseModel, ConfigDict, Field

from envharness.core.errors import ConfigError, PolicyError
from envharness.core.messages import one_line
from envharness.core.registry import load
from envharness.core.types import Action, JsonDict, Observation, ToolSchema
from envharness.core.usage import Usage

T = TypeVar("T")


class Turn(BaseModel):
    """All that a policy is told before it acts. Nothing of the environment's state is in it."""

    observation: Observation
    """What the outermost component shows."""
    tools: tuple[ToolSchema, ...]
    step: int
    """0-based number of this turn in the episode; blocked and refused turns count."""


class Decision(BaseModel):
    """What a policy answers.

    `action` is None where it named none: the engine then shows a helpful observation and counts the turn. `stop` ends
    the episode at once, and the verifier judges what is there.
    """

    action: Action | None = None
    problem: str = ""
    """Why `action` is None, in words for the policy: the engine shows them in place of its own. Empty otherwise."""
    stop: bool = False
    text: str = ""
    """The policy's own words (reasoning, raw answer); stored, never given to hooks."""
    usage: Usage = Usage()


@runtime_checkable
class Policy(Protocol):
    """One instance plays one episode.

    A policy that only computes, and so never waits for anything, says so by an attribute `immediate = True` (of the
    class, or of the instance). Its turns are then played without the event loop, on the environment's thread, which
    makes an episode of a fast environment several times cheaper. It may await nothing that waits; where it does, that
    is its error. Making and closing it stay where they are, so that it must not be bound to one thread.
    """

    async def act(self, turn: Turn) -> Decision:
        """Choose what to do. Raises PolicyError where its program or provider failed."""
        ...

    async def close(self) -> None:
        """Release what the policy holds. Idempotent."""
        ...


def is_immediate(policy: Policy) -> bool:
    """Whether the policy says that it never waits."""
    return getattr(policy, "immediate", False) is True


def answer_at_once(answer: Awaitable[T]) -> T:
    """Run what an immediate policy's `act` returned to its end. Raises PolicyError where it waits for something."""
    waiting = answer.__await__()
    try:
        next(waiting)
    except StopIteration as end:
        return end.value
    except RuntimeError as error:
        if str(error) == "no running event loop":  # what asyncio says where a policy asks it to wait
            raise PolicyError(_WAITED) from error
        raise
    with suppress(RuntimeError):  # it waits on while it is being closed
        waiting.close()
    raise PolicyError(_WAITED)


_WAITED = (
    "the policy says that it is immediate, but act() waited for something; set immediate = False, or await nothing"
)


class PolicySpec(BaseModel):
    """A policy as data: its registered id (or `module:Class`) and its options."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    id: str
    options: JsonDict = Field(default_factory=dict)

    def build(self, seed: int) -> Policy:
        """Make the policy for one episode. `seed` is its only source of randomness."""
        factory = load("policy", self.id)
        policy = factory(seed=seed, **self.options)
        if not isinstance(policy, Policy):
            raise TypeError(f"policy {self.id!r} has no async act() and close(); see envharness.core.policy.Policy")
        return policy

    def repeats_itself(self) -> bool:
        """Whether its class says that with these options every rollout would be the same, whatever its seed.

        A policy says so by a class method `repeats_itself(options)`; one without it is taken to vary.
        """
        says: Any = getattr(load("policy", self.id), "repeats_itself", None)
        return bool(says(self.options)) if callable(says) else False

    def check(self) -> None:
        """Raise where this policy cannot be made (unknown id, broken plug-in, wrong option), before it costs."""
        try:
            self.build(0)
        except (TypeError, ValueError) as error:
            raise ConfigError(f"policy {self.id!r}: {one_line(error)}") from error
