"""Small environments for tests: a corridor with every capability, and a ladder whose tools clash with it."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Literal, Self

from envharness.bridges.base import Bridge
from envharness.core.errors import ConfigError, SpecError
from envharness.core.harness import EnvHarness
from envharness.core.seeding import stream
from envharness.core.tool import Tool
from envharness.core.types import (
    Action,
    Capabilities,
    EnvResponse,
    EvaluationResult,
    JsonDict,
    Observation,
    ResetResponse,
    StepInfo,
)

FORWARD = Action(name="forward")
BACK = Action(name="back")
STOP = Action(name="stop")
COLOURS = ("amber", "blue", "crimson", "green", "ivory", "mauve", "ochre", "teal")


class _Forward(Tool):
    name = "forward"

    def __init__(self, corridor: Corridor) -> None:
        self._corridor = corridor

    def invoke(self) -> EnvResponse:
        """Walk one step towards the end."""
        return self._corridor.walk(1)


class _Back(Tool):
    name = "back"

    def __init__(self, corridor: Corridor) -> None:
        self._corridor = corridor

    def invoke(self) -> EnvResponse:
        """Walk one step towards the start."""
        return self._corridor.walk(-1)


class _Stop(Tool):
    name = "stop"

    def __init__(self, corridor: Corridor) -> None:
        self._corridor = corridor

    def invoke(self) -> EnvResponse:
        """End the episode here."""
        return self._corridor.answer("You stop.", terminated=True)


class Corridor(Bridge):
    """Walk `length` steps to win. The walls have a colour for each seed; the whole state can be saved.

    `ends_at_goal` False: only `stop` ends the episode, so that the goal can be reached and lost again. Counters tell
    tests how often it was reset, judged and closed.
    """

    def __init__(
        self,
        length: int = 3,
        *,
        name: str = "corridor",
        max_steps: int = 50,
        ends_at_goal: bool = True,
        step_limit_option: bool = True,
    ) -> None:
        super().__init__()
        self.length = length
        self._task = name
        self._own_limit = self._limit = max_steps
        self._ends_at_goal = ends_at_goal
        self._step_limit_option = step_limit_option
        self.position = self.steps = self.replayed_steps = 0
        self.colour = COLOURS[0]
        self.text = ""
        self.resets = self.evaluations = self.closes = 0
        self.last_options: JsonDict = {}

    @property
    def capabilities(self) -> Capabilities:
        return Capabilities(state="full", fork_safe=True, thread_safe=True, step_limit_option=self._step_limit_option)

    @property
    def task_id(self) -> str:
        return self._task

    def list_tasks(self) -> list[str]:
        return [self._task]

    def tools(self) -> Sequence[Tool]:
        return [_Forward(self), _Back(self), _Stop(self)]

    def reference_solution(self) -> list[Action] | None:
        return [FORWARD] * self.length + ([] if self._ends_at_goal else [STOP])

    def _start(self, seed: int | None, options: JsonDict) -> ResetResponse:
        if not self._step_limit_option and "max_steps" in options:
            raise ConfigError("this corridor's reset takes no max_steps")
        self.last_options = options
        self.resets += 1
        limit = options.get("max_steps", self._own_limit)
        self._limit = limit if isinstance(limit, int) else self._own_limit
        self.position = self.steps = 0
        self.colour = f"{stream(seed or 0, 'colour').choice(COLOURS)}-{seed or 0}"
        self.text = f"You enter {self._task}."
        return ResetResponse(observation=self._look())

    def _look(self) -> Observation:
        data: JsonDict = {"position": self.position, "length": self.length}
        text = f"{self.text} The walls are {self.colour}; you are at {self.position} of {self.length}."
        return Observation(text=text, data=data)

    def walk(self, by: int) -> EnvResponse:
        """Answer a walk; at either end of the corridor nothing happens."""
        before = self.position
        self.position = min(max(before + by, 0), self.length)
        if self.position == before:
            return self.answer("A wall.", ineffective=True)
        return self.answer("You walk.", terminated=self._ends_at_goal and self.position == self.length)

    def answer(self, text: str, *, terminated: bool = False, ineffective: bool = False) -> EnvResponse:
        """Count the step and say what happened."""
        self.text = text
        self.steps += 1
        return EnvResponse(
            observation=self._look(),
            reward=1.0 if terminated and self.position == self.length else 0.0,
            terminated=terminated,
            truncated=not terminated and self.steps >= self._limit,
            info={"ineffective": True} if ineffective else {},
        )

    def notify_replay_complete(self) -> None:
        self.replayed_steps, self.steps = self.steps, 0

    def evaluate(self) -> EvaluationResult:
        self._require("evaluate", "running", "ended")
        self.evaluations += 1
        return EvaluationResult(
            success=self.position == self.length,
            score=self.position / self.length,
            metrics={"position": self.position},
        )

    def goal_reached(self, state: JsonDict) -> bool | None:
        return state["position"] == state["length"]

    def step_reward(self, info: StepInfo) -> float:
        """Return how much nearer the step led. Raises KeyError on another environment's states."""
        after, before = info.state_after["position"], info.state_before["position"]
        assert isinstance(after, int)
        assert isinstance(before, int)
        return float(after - before)

    def get_env_state(self) -> JsonDict:
        self._require("get_env_state", "running", "ended")
        return {"position": self.position, "length": self.length, "colour": self.colour, "steps": self.steps}

    def env_state_schema(self) -> str:
        return (
            "position: int - steps from the start\n"
            "length: int - where the corridor ends\n"
            "colour: str - of the walls\n"
            "steps: int - calls so far"
        )

    def save_state(self) -> JsonDict:
        return {
            "phase": self._phase,
            "text": self.text,
            "limit": self._limit,
            **(self.get_env_state() if self._phase in {"running", "ended"} else {}),
        }

    @classmethod
    def from_state(cls, state: JsonDict, **options: Any) -> Self:
        env = cls(**options)
        phase = state.get("phase")
        if phase not in {"new", "running", "ended"}:
            raise SpecError(f"not a corridor's snapshot: phase {phase!r}", place="phase")
        if phase != "new":
            env.position, env.steps = int(str(state["position"])), int(str(state["steps"]))
            env.colour, env.text = str(state["colour"]), str(state["text"])
            env._limit = int(str(state["limit"]))
            env._phase = "running" if phase == "running" else "ended"
        return env

    def _release(self) -> None:
        self.closes += 1


class _Climb(Tool):
    name = "climb"

    def __init__(self, ladder: Ladder) -> None:
        self._ladder = ladder

    def invoke(self, rungs: int, direction: Literal["up", "down"] = "up") -> EnvResponse:
        """Climb some rungs.

        Args:
            rungs: how many
            direction: where to
        """
        return self._ladder.climb(rungs if direction == "up" else -rungs)


class _StopWhere(Tool):
    name = "stop"

    def __init__(self, ladder: Ladder) -> None:
        self._ladder = ladder

    def invoke(self, why: str) -> EnvResponse:
        """End the episode.

        Args:
            why: the reason
        """
        return self._ladder.end(why)


class Ladder(Bridge):
    """Climb to rung `top`. Its `stop` has another schema than the corridor's; nothing about it is optional."""

    def __init__(self, top: int = 5) -> None:
        super().__init__()
        self.top = top
        self.rung = 0
        self.resets = self.closes = 0

    def tools(self) -> Sequence[Tool]:
        return [_Climb(self), _StopWhere(self)]

    @property
    def capabilities(self) -> Capabilities:
        return Capabilities(reversible=False, seeded=False, isolated=False, volatile_state_keys=("tick",))

    @property
    def task_id(self) -> str:
        return "ladder"

    def list_tasks(self) -> list[str]:
        return ["ladder"]

    def _start(self, seed: int | None, options: JsonDict) -> ResetResponse:
        self.resets += 1
        self.rung = 0
        return ResetResponse(observation=self._look())

    def _look(self) -> Observation:
        return Observation(text=f"You are on rung {self.rung} of {self.top}.", data={"rung": self.rung})

    def climb(self, by: int) -> EnvResponse:
        """Climb; the top ends the episode."""
        self.rung = min(max(self.rung + by, 0), self.top)
        return EnvResponse(observation=self._look(), terminated=self.rung == self.top)

    def end(self, why: str) -> EnvResponse:
        """Stop."""
        return EnvResponse(observation=Observation(text=f"You stop: {why}"), terminated=True)

    def evaluate(self) -> EvaluationResult:
        return EvaluationResult(success=self.rung == self.top, score=self.rung / self.top)

    def get_env_state(self) -> JsonDict:
        return {"rung": self.rung, "length": "a ladder's"}

    def env_state_schema(self) -> str:
        return "rung: int - counted from the ground\n  0 is the ground\nlength: str - of what"

    def save_state(self) -> JsonDict:
        return {}

    def _release(self) -> None:
        self.closes += 1


class Reprieve(EnvHarness):
    """Hides the first termination from whatever is above: stands for a Contract that takes one back."""

    tag = "environments:Reprieve"

    def __init__(self, inner: Any) -> None:
        super().__init__(inner)
        self._given = False

    def step(self, action: Action) -> EnvResponse:
        response = self.inner.step(action)
        if response.terminated and not self._given:
            self._given = True
            inner: Any = self.inner
            inner._phase = "running"
            return response.model_copy(update={"terminated": False})
        return response
