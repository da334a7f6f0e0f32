"""The environment's side of an episode: builds the stack, takes one turn at a time and writes down what happened.

Everything here is synchronous and is called on the one thread the environment lives on.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from contextlib import ExitStack
from time import perf_counter
from typing import Any, TypeVar

from envharness.components.tap import Recorder, Tap, expect, tapped, written_copy
from envharness.core.env import ActionableEnv
from envharness.core.harness import EnvHarness
from envharness.core.json_copy import copied_object, plain_copy
from envharness.core.known import known
from envharness.core.policy import Decision
from envharness.core.trace import GoalReading, StartRecord, TraceStep
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
from envharness.rollouts.decisions import why_not_sent

T = TypeVar("T")


class Session:
    """One episode of one stack. `start`, then `turn`s, then `evaluate`; `close` always.

    The stack is made by `build` and closed at the end where `owns` says so; one that was given stays its owner's.
    """

    def __init__(
        self, build: Callable[[], ActionableEnv], *, owns: bool, record_states: bool, unsafe_hooks: bool = False
    ) -> None:
        self._build = build
        self._owns = owns
        self._record_states = record_states
        self._unsafe_hooks = unsafe_hooks
        self._cleanup = ExitStack()
        self._recorder = Recorder()
        self._state: JsonDict = {}
        self._rewards_steps = False
        self._reads_goal = False
        self.goal: GoalReading | None = None
        """What the state said when the verifier was asked; None before that, and where it cannot tell."""
        self.task_id = ""
        """The task's id as the environment has it; empty before `start`."""
        self.tools: tuple[ToolSchema, ...] = ()
        self.notes: list[str] = []
        """Faults that did not end the episode."""

    def start(self, seed: int) -> StartRecord:
        """Build the stack and reset it."""
        env = self._build()
        if self._owns:
            self._cleanup.callback(env.close)
        if self._unsafe_hooks:
            _run_hooks_unconfined(env)
        task = expect(str, env.task_id, "task_id")
        task.encode()  # raises for half a surrogate pair, which no record could hold
        self.task_id = task
        self._rewards_steps = any(_has_dense_reward(layer) for layer in env.layers())
        self._reads_goal = any(_has_goal_reading(layer) for layer in env.layers())
        self._env, self._recorder = self._cleanup.enter_context(tapped(env))
        began = perf_counter()
        response = expect(ResetResponse, self._env.reset(seed), "reset")
        seconds = perf_counter() - began
        self.tools = tuple(expect(ToolSchema, tool, "tool_schemas") for tool in self._env.tool_schemas())
        recorded = self._recorder.take()
        return StartRecord(
            shown=_copied(response.observation),
            raw=recorded.starts[0].observation if recorded.starts else _copied(response.observation),
            state=self._look_at_state(),
            replayed=recorded.exchanges,
            events=recorded.events,
            env_seconds=seconds,
        )

    def turn(self, number: int, decision: Decision, policy_seconds: float) -> TraceStep:
        """Carry out what the policy decided; keeps the decision's action as a part of the trace."""
        fields = _fields_of_turn(number, decision, policy_seconds)
        began = perf_counter()
        if decision.stop:
            fields["stopped"] = True
            fields["shown"] = _copied(self._env.observe())
        elif decision.action is None:
            fields["refused"] = decision.problem or "no action was named"
            names = ", ".join(tool.name for tool in self.tools)
            fields["shown"] = self._answer(decision.problem or f"You named no action. Tools: {names}.")
        else:
            self._take_action(decision.action, fields)
        fields["env_seconds"] = perf_counter() - began
        if fields["action"] is None:
            fields["state"] = self._state_copy()
        recorded = self._recorder.take()
        fields["raw"], fields["events"], fields["starts"] = recorded.exchanges, recorded.events, recorded.starts
        return known(TraceStep, fields)

    def evaluate(self) -> EvaluationResult:
        """Ask the environment's own verifier, through the stack, and beside it what the state says of the goal."""
        verdict = written_copy(EvaluationResult, self._env.evaluate(), "evaluate")
        self.goal = self._read_goal(verdict) if self._reads_goal else None
        return verdict

    def close(self) -> None:
        """Take the taps out and close the stack, if it is ours. Idempotent."""
        self._cleanup.close()

    def _take_action(self, action: Action, fields: dict[str, Any]) -> None:
        if action.replayed:  # only a Stage may mark one so
            action.replayed = False
        fields["action"] = action
        if reason := why_not_sent(action):
            fields["refused"] = reason
            fields["shown"] = self._answer(reason)
            fields["state"] = self._state_copy()
            return
        # A copy, because the trace's own is none that anybody below can edit.
        sent = known(Action, {"name": action.name, "kwargs": copied_object(action.kwargs), "replayed": False})
        response = expect(EnvResponse, self._env.step(sent), "step")
        before = self._state
        if self._recorder.exact is response and isinstance(self._env, Tap):
            # Nothing is above the tap that could have changed it, and the trace may hold one copy in two places.
            recorded = self._recorder.exchanges[-1].response
            fields["shown"], fields["info"] = recorded.observation, recorded.info
        else:
            fields["shown"], fields["info"] = _copied(response.observation), copied_object(response.info)
        info = response.info
        fields["refused"] = str(info.get("refused") or "")
        fields["blocked"] = str(info.get("blocked") or "")
        fields["terminated"], fields["truncated"] = response.terminated, response.truncated
        fields["reward"] = response.reward
        fields["state"] = self._look_at_state()
        if self._rewards_steps:
            seen = StepInfo(
                action=sent, response=response, state_before=before, state_after=self._state, step=fields["step"]
            )
            fields["dense_reward"] = self._dense_reward(seen)

    def _read_goal(self, verdict: EvaluationResult) -> GoalReading | None:
        """Hold the verdict against the last state, which no Contract has touched. A fault in it is only noted."""
        try:
            state = copied_object(self._env.get_env_state())
            reached = self._env.goal_reached(state)
            if reached is None:
                return None
            reached = expect(bool, reached, "goal_reached")
        except Exception as error:  # noqa: BLE001  a second opinion, on which no episode's outcome depends
            self.notes.append(f"goal_reached: {type(error).__name__}: {error}")
            return None
        return GoalReading(reached=reached, state=None if reached == verdict.success else state)

    def _dense_reward(self, info: StepInfo) -> float:
        try:
            reward = float(self._env.step_reward(info))
            if not math.isfinite(reward):
                raise ValueError(f"{reward} is not a finite number")  # noqa: TRY301  noted like any other fault of it
        except Exception as error:  # noqa: BLE001  promised: a fault in the dense reward never ends an episode
            self.notes.append(f"step {info.step}: step_reward: {type(error).__name__}: {error}")
            return 0.0
        return reward

    def _answer(self, reason: str) -> Observation:
        """Return the current observation behind the reason why nothing was done."""
        return _copied(self._env.observe()).below(reason)

    def _look_at_state(self) -> JsonDict | None:
        """Read the state where somebody wants it, and return it where the trace does."""
        if self._rewards_steps:
            self._state = self._env.get_env_state()
        elif self._record_states:
            self._state = copied_object(self._env.get_env_state())
        return self._state_copy()

    def _state_copy(self) -> JsonDict | None:
        if not self._record_states:
            return None
        # Only a dense reward sees the state itself, and might write to it; else the trace may hold it more than once.
        return copied_object(self._state) if self._rewards_steps else self._state


def _copied(observation: Observation) -> Observation:
    """Return a copy that stays as it is when the environment goes on."""
    copied = plain_copy(Observation, observation)
    return Observation(text=observation.text, data=copied_object(observation.data)) if copied is None else copied


def _fields_of_turn(number: int, decision: Decision, policy_seconds: float) -> dict[str, Any]:
    """Return the fields of a TraceStep of which only the decision is known, `shown` still missing."""
    return {
        "step": number,
        "action": None,
        "stopped": False,
        "text": decision.text,
        "usage": decision.usage,
        "shown": None,
        "state": None,
        "info": {},
        "terminated": False,
        "truncated": False,
        "reward": 0.0,
        "dense_reward": 0.0,
        "refused": "",
        "blocked": "",
        "raw": [],
        "starts": [],
        "events": [],
        "policy_seconds": policy_seconds,
        "env_seconds": 0.0,
    }


def _has_dense_reward(layer: ActionableEnv) -> bool:
    inherited = (ActionableEnv.step_reward, EnvHarness.step_reward)
    return type(layer).step_reward not in inherited


def _has_goal_reading(layer: ActionableEnv) -> bool:
    inherited = (ActionableEnv.goal_reached, EnvHarness.goal_reached)
    return type(layer).goal_reached not in inherited


def _run_hooks_unconfined(env: ActionableEnv) -> None:
    """Pass on the user's explicit wish; without it no Contract ever runs unconfined."""
    from envharness.components.contract import Contract

    for layer in env.layers():
        if isinstance(layer, Contract):
            layer.unsafe_hooks = True
