"""The bases of components: what all of them share, and the one around one environment, which forwards everything."""

from __future__ import annotations

from typing import Any, ClassVar, Self

from envharness.core.env import ActionableEnv
from envharness.core.errors import SpecError
from envharness.core.spec import StackNode, WrappedNode
from envharness.core.trace import NULL_SINK, TraceSink
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


class Component(ActionableEnv):
    """What a Stage, a Contract and a Chain have in common: a registered id, and a place to report to."""

    tag: ClassVar[str]
    """The id under which the component is registered."""

    def __init__(self) -> None:
        self.sink: TraceSink = NULL_SINK
        self.label = self.tag
        """How this component is called in a trace."""

    def attach(self, sink: TraceSink, number: int) -> None:
        """Report to `sink` from now on, as `tag#number`."""
        self.sink = sink
        self.label = f"{self.tag}#{number}"


class EnvHarness(Component):
    """A component. Overrides what it affects; what it does not override reaches the environment as it is.

    `evaluate` is final: the verifier of the frozen environment always judges. Defining a subclass that overrides it
    raises TypeError.
    """

    def __init_subclass__(cls, **options: Any) -> None:
        super().__init_subclass__(**options)
        if cls.evaluate is not EnvHarness.evaluate:
            raise TypeError(f"{cls.__name__} defines evaluate(), but no component has a say in the verdict")

    def __init__(self, inner: ActionableEnv) -> None:
        super().__init__()
        self.inner = inner

    def reset(self, seed: int | None = None, options: JsonDict | None = None) -> ResetResponse:
        """Forward."""
        return self.inner.reset(seed, options)

    def step(self, action: Action) -> EnvResponse:
        """Forward."""
        return self.inner.step(action)

    def observe(self) -> Observation:
        """Forward."""
        return self.inner.observe()

    def evaluate(self) -> EvaluationResult:
        """Forward: no component has a say in the verdict."""
        return self.inner.evaluate()

    def step_reward(self, info: StepInfo) -> float:
        """Forward."""
        return self.inner.step_reward(info)

    def notify_replay_complete(self) -> None:
        """Forward."""
        self.inner.notify_replay_complete()

    def resume(self) -> None:
        """Forward."""
        self.inner.resume()

    def close(self) -> None:
        """Forward."""
        self.inner.close()

    @property
    def capabilities(self) -> Capabilities:
        """Forward."""
        return self.inner.capabilities

    @property
    def task_id(self) -> str:
        """Forward."""
        return self.inner.task_id

    def list_tasks(self) -> list[str]:
        """Forward."""
        return self.inner.list_tasks()

    def tool_schemas(self) -> list[ToolSchema]:
        """Forward."""
        return self.inner.tool_schemas()

    def get_env_state(self) -> JsonDict:
        """Forward."""
        return self.inner.get_env_state()

    def env_state_schema(self) -> str:
        """Forward."""
        return self.inner.env_state_schema()

    def reference_solution(self) -> list[Action] | None:
        """Forward."""
        return self.inner.reference_solution()

    def goal_reached(self, state: JsonDict) -> bool | None:
        """Forward."""
        return self.inner.goal_reached(state)

    def save_state(self) -> JsonDict:
        """Return the component's own state, without what it wraps."""
        return {}

    @classmethod
    def from_state(cls, state: JsonDict, inner: ActionableEnv | None = None, **options: Any) -> Self:
        """Make the component around `inner` from what `save_state` returned."""
        if inner is None:
            raise SpecError(f"{cls.__name__} wraps an environment; none was given")
        if state or options:
            raise SpecError(f"{cls.__name__} has no state, found {sorted({*state, *options})}")
        return cls(inner)

    @property
    def node(self) -> StackNode:
        """This component and what it wraps, as data."""
        return WrappedNode(component=self.tag, state=self.save_state(), inner=self.inner.node)

    def children(self) -> tuple[ActionableEnv, ...]:
        """Return the environment wrapped."""
        return (self.inner,)

    def replace_child(self, index: int, env: ActionableEnv) -> None:
        """Put `env` in the place of the environment wrapped."""
        if index != 0:
            raise IndexError(f"{type(self).__name__} has one child, not {index + 1}")
        self.inner = env
