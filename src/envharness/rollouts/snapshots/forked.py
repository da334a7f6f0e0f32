"""A forked child as the worker's stack sees it: an environment whose every call is a frame to the child and back."""

from __future__ import annotations

import socket
from collections.abc import Callable
from contextlib import suppress
from typing import Any, cast

from envharness.components.tap import Recorder
from envharness.core.env import ActionableEnv
from envharness.core.errors import MachineryError
from envharness.core.spec import StackNode
from envharness.core.trace import ComponentEvent, Exchange, SegmentStart
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
from envharness.rollouts.snapshots.faults import Fault
from envharness.rollouts.snapshots.wire import receive, send


class ForkedEnvironment(ActionableEnv):
    """Goes on from a staged start in a process of its own. What it is (not how it stands) `local` knows as well.

    The first reset returns what the staging process's did; a later one happens in the child. Raises MachineryError
    where the child is dead. A call waits as long as the child takes: the engine limits it, as it does any other.
    """

    def __init__(
        self,
        local: ActionableEnv,
        staged: JsonDict,
        channel: socket.socket,
        child: int,
        *,
        recorder: Recorder,
        on_death: Callable[[], str],
        on_close: Callable[[], object],
    ) -> None:
        """Take over a child. `on_death` is told of its death and says how it died; `on_close` is told of its end."""
        self._local = local
        self._staged: JsonDict | None = staged
        self._channel = channel
        self.child = child
        """The process id."""
        self._recorder = recorder
        self._on_death = on_death
        self._on_close = on_close
        self._death = ""
        self._closed = False

    def reset(self, seed: int | None = None, options: JsonDict | None = None) -> ResetResponse:
        """Return what staging returned; from the second time on, reset in the child."""
        reply, self._staged = self._staged, None
        value = self._call("reset", {"seed": seed, "options": options}) if reply is None else self._take(reply)
        return ResetResponse.model_validate(value)

    def step(self, action: Action) -> EnvResponse:
        """Step in the child."""
        return EnvResponse.model_validate(self._call("step", action.model_dump()))

    def observe(self) -> Observation:
        """Observe in the child."""
        return Observation.model_validate(self._call("observe"))

    def evaluate(self) -> EvaluationResult:
        """Ask the verifier in the child."""
        return EvaluationResult.model_validate(self._call("evaluate"))

    def step_reward(self, info: StepInfo) -> float:
        """Ask the child."""
        return self._call("step_reward", info.model_dump())

    def notify_replay_complete(self) -> None:
        """Tell the child."""
        self._call("notify_replay_complete")

    def resume(self) -> None:
        """Resume in the child."""
        self._call("resume")

    def close(self) -> None:
        """Close the environment in the child and end it. Idempotent."""
        if self._closed:
            return
        self._closed = True
        try:
            if not self._death:
                with suppress(MachineryError):  # it is gone, which is all that was wanted
                    self._call("close")
        finally:
            self._channel.close()
            self._on_close()

    @property
    def capabilities(self) -> Capabilities:
        """Those of the local one."""
        return self._local.capabilities

    @property
    def task_id(self) -> str:
        """That of the local one."""
        return self._local.task_id

    @property
    def node(self) -> StackNode:
        """That of the local one."""
        return self._local.node

    def list_tasks(self) -> list[str]:
        """Ask the local one."""
        return self._local.list_tasks()

    def env_state_schema(self) -> str:
        """Ask the local one."""
        return self._local.env_state_schema()

    def tool_schemas(self) -> list[ToolSchema]:
        """Ask the child."""
        return [ToolSchema.model_validate(schema) for schema in self._call("tool_schemas")]

    def get_env_state(self) -> JsonDict:
        """Ask the child."""
        return self._call("get_env_state")

    def reference_solution(self) -> list[Action] | None:
        """Ask the child."""
        solution = self._call("reference_solution")
        return None if solution is None else [Action.model_validate(action) for action in solution]

    def goal_reached(self, state: JsonDict) -> bool | None:
        """Ask the child."""
        return self._call("goal_reached", state)

    def save_state(self) -> JsonDict:
        """Ask the child."""
        return self._call("save_state")

    def _call(self, call: str, argument: Any = None) -> Any:
        if self._death:
            raise MachineryError(self._death)
        try:
            send(self._channel, {"call": call, "argument": argument})
            reply = receive(self._channel)
        except (OSError, EOFError) as error:
            self._death = f"the environment's own process ended {self._on_death()} in {call}"
            raise MachineryError(self._death) from error
        return self._take(reply)

    def _take(self, reply: JsonDict) -> Any:
        """Record what the child recorded, and return the call's value or raise what it raised."""
        told = cast("dict[str, Any]", reply)
        recorder = self._recorder
        recorder.exchanges += [Exchange.model_validate(item) for item in told.get("exchanges", ())]
        recorder.starts += [SegmentStart.model_validate(item) for item in told.get("starts", ())]
        recorder.events += [ComponentEvent.model_validate(item) for item in told.get("events", ())]
        if "fault" in told:
            raise Fault.model_validate(told["fault"]).error()
        return told["value"]
