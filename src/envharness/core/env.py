"""The one interface that every environment, and every component around one, keeps."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterator
from types import TracebackType
from typing import Any, Self

from envharness.core.errors import NotResumableError, SpecError
from envharness.core.spec import EnvironmentNode, StackNode, StackSpec
from envharness.core.trace import TraceSink
from envharness.core.types import (
    Action,
    Capabilities,
    EnvResponse,
    EvaluationResult,
    JsonDict,
    Observation,
    ResetResponse,
    StepInfo,
    ToolSchema,
)


class ActionableEnv(ABC):
    """An environment that can be reset, stepped, observed and judged.

    Calls come in the order reset, (step | observe)*, evaluate; anything else is a LifecycleError. A call that the tools
    do not know or whose arguments do not fit is not an error: the response says so in `info["refused"]`, and nothing
    else happens.
    """

    _node: EnvironmentNode | None = None

    # --- the episode -------------------------------------------------------------------------------------------------

    @abstractmethod
    def reset(self, seed: int | None = None, options: JsonDict | None = None) -> ResetResponse:
        """Start an episode. The same seed and options give the same start; None is a fixed default, never random."""

    @abstractmethod
    def step(self, action: Action) -> EnvResponse:
        """Execute one action. Raises LifecycleError before reset, after the end and after close."""

    @abstractmethod
    def observe(self) -> Observation:
        """Return the current observation again. Changes nothing."""

    @abstractmethod
    def evaluate(self) -> EvaluationResult:
        """Ask the benchmark's verifier about the episode so far. Changes nothing; wrappers always forward it."""

    def step_reward(self, info: StepInfo) -> float:
        """Return a dense reward for one step; default 0. An exception in it is recorded and never ends an episode."""
        del info
        return 0.0

    def notify_replay_complete(self) -> None:
        """Learn that a Stage has finished its replay: from here on, the policy acts."""
        return

    def resume(self) -> None:
        """Take back a termination. Only where `capabilities.resumable`; raises NotResumableError elsewhere."""
        raise NotResumableError(f"{type(self).__name__} cannot take back a termination")

    @abstractmethod
    def close(self) -> None:
        """Release everything. Idempotent."""

    # --- what it says about itself -----------------------------------------------------------------------------------

    @property
    def capabilities(self) -> Capabilities:
        """What this environment can do."""
        return Capabilities()

    @property
    @abstractmethod
    def task_id(self) -> str:
        """The task that reset starts."""

    @abstractmethod
    def list_tasks(self) -> list[str]:
        """Return the ids of all tasks that `make(id, task=...)` accepts here, sorted."""

    @abstractmethod
    def tool_schemas(self) -> list[ToolSchema]:
        """Return the tools in a stable order."""

    @abstractmethod
    def get_env_state(self) -> JsonDict:
        """Return a fresh JSON copy of what hooks may read: no handles, and writing to it changes nothing."""

    @abstractmethod
    def env_state_schema(self) -> str:
        """Describe `get_env_state()`: one line a key, `name: type - meaning` (see core.state_schema for the types)."""

    def reference_solution(self) -> list[Action] | None:
        """Return actions that win from reset, or None where the benchmark has none. For checks, never for policies."""
        return None

    def goal_reached(self, state: JsonDict) -> bool | None:
        """Say of a state of `get_env_state()` whether the task's goal is reached in it; None where it does not tell.

        A second opinion beside `evaluate`, for checks and never for policies: read it off what the state says of the
        world, not off a flag or a history that the verifier itself goes by. Pure: it reads `state` and changes nothing.
        """
        del state
        return None

    # --- as data -----------------------------------------------------------------------------------------------------

    @abstractmethod
    def save_state(self) -> JsonDict:
        """Return what `from_state` needs: a snapshot where `capabilities.state` is full, else what reset needs."""

    @classmethod
    def from_state(cls, state: JsonDict, **options: Any) -> Self:
        """Make an environment that goes on from what `save_state` returned; `options` are the constructor's."""
        del options
        raise SpecError(f"{cls.__name__} does not restore from a state ({', '.join(state)})", place="state")

    @property
    def node(self) -> StackNode:
        """This environment as a node of a stack. Raises SpecError where it was not built by `make`."""
        if self._node is None:
            raise SpecError(
                f"this {type(self).__name__} was constructed directly, so nobody knows how to build it again; "
                "use envharness.make('id', ...) or make('module:Class', ...)"
            )
        return self._node

    @property
    def spec(self) -> StackSpec:
        """The whole stack from here down, as data."""
        return StackSpec(stack=self.node)

    def children(self) -> tuple[ActionableEnv, ...]:
        """Return the environments directly below; empty for a bridge."""
        return ()

    def replace_child(self, index: int, env: ActionableEnv) -> None:
        """Put `env` in the place of `children()[index]`. This is how a tap is slipped into a stack."""
        raise IndexError(f"{type(self).__name__} has no child {index}; {env} was not placed")

    def layers(self) -> Iterator[ActionableEnv]:
        """Yield this environment and all below it, outermost first, depth first."""
        yield self
        for child in self.children():
            yield from child.layers()

    def attach(self, sink: TraceSink, number: int) -> None:
        """Report to `sink` from now on, as the component of this number (0: innermost). A bridge has nothing to say."""
        del sink, number

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self.close()
