"""The forked child: goes on with a staged environment, answering the calls that come over its socket."""

from __future__ import annotations

import socket
from collections.abc import Callable
from typing import Any, cast

from pydantic import BaseModel

from envharness.components.tap import Recorder, expect, written_copy
from envharness.core.env import ActionableEnv
from envharness.core.types import (
    Action,
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


def serve(env: ActionableEnv, recorder: Recorder, channel: socket.socket) -> None:
    """Answer until the worker closes the socket or is gone."""
    while True:
        try:
            request = receive(channel)
        except (EOFError, ConnectionError):
            return
        _answer(env, recorder, channel, request)


def _answer(env: ActionableEnv, recorder: Recorder, channel: socket.socket, request: JsonDict) -> None:
    try:
        value = _CALLS[str(request["call"])](env, request.get("argument"))
        send(channel, {"value": value, **recorded(recorder)})
    except ConnectionError:
        return
    except BaseException as error:  # noqa: BLE001  whatever it is, it is raised where the call came from
        send(channel, {"fault": Fault.of(error).model_dump(), **recorded(recorder)})


def reset(env: ActionableEnv, argument: Any) -> JsonDict:
    """Reset; `argument` holds seed and options."""
    return _data(expect(ResetResponse, env.reset(argument["seed"], argument["options"]), "reset"))


def recorded(recorder: Recorder) -> JsonDict:
    """Return what taps and components have reported since the last call, as JSON."""
    taken = recorder.take()
    lists = {"exchanges": taken.exchanges, "starts": taken.starts, "events": taken.events}
    return {key: [_data(item) for item in items] for key, items in lists.items() if items}


def _step(env: ActionableEnv, argument: Any) -> JsonDict:
    return _data(expect(EnvResponse, env.step(Action.model_validate(argument)), "step"))


def _observe(env: ActionableEnv, _argument: Any) -> JsonDict:
    return _data(expect(Observation, env.observe(), "observe"))


def _evaluate(env: ActionableEnv, _argument: Any) -> JsonDict:
    return _data(written_copy(EvaluationResult, env.evaluate(), "evaluate"))


def _step_reward(env: ActionableEnv, argument: Any) -> float:
    return float(env.step_reward(StepInfo.model_validate(argument)))


def _tool_schemas(env: ActionableEnv, _argument: Any) -> list[Any]:
    return [_data(expect(ToolSchema, tool, "tool_schemas")) for tool in env.tool_schemas()]


def _get_env_state(env: ActionableEnv, _argument: Any) -> JsonDict:
    return env.get_env_state()


def _reference_solution(env: ActionableEnv, _argument: Any) -> list[Any] | None:
    solution = env.reference_solution()
    return None if solution is None else [_data(action) for action in solution]


def _goal_reached(env: ActionableEnv, argument: Any) -> bool | None:
    return env.goal_reached(argument)


def _save_state(env: ActionableEnv, _argument: Any) -> JsonDict:
    return env.save_state()


def _notify_replay_complete(env: ActionableEnv, _argument: Any) -> None:
    env.notify_replay_complete()


def _resume(env: ActionableEnv, _argument: Any) -> None:
    env.resume()


def _close(env: ActionableEnv, _argument: Any) -> None:
    env.close()


def _data(model: BaseModel) -> JsonDict:
    return cast("JsonDict", model.model_dump())


_CALLS: dict[str, Callable[[ActionableEnv, Any], Any]] = {
    "reset": reset,
    "step": _step,
    "observe": _observe,
    "evaluate": _evaluate,
    "step_reward": _step_reward,
    "tool_schemas": _tool_schemas,
    "get_env_state": _get_env_state,
    "reference_solution": _reference_solution,
    "goal_reached": _goal_reached,
    "save_state": _save_state,
    "notify_replay_complete": _notify_replay_complete,
    "resume": _resume,
    "close": _close,
}
"""What a child can be asked, by the name of the method."""
