"""The ALFWorld bridge: one game, one tool `act(command)`, and the engine's own verdict."""

from __future__ import annotations

import os
import re
import threading
from collections.abc import Generator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, ClassVar, Self

import orjson
from pydantic import BaseModel, ConfigDict, Field

from envharness.bridges.alfworld import engine, state
from envharness.bridges.alfworld.commands import RepetitionGuard, RepetitionWatch, near_miss
from envharness.bridges.alfworld.engine import Frame, GameEngine
from envharness.bridges.alfworld.games import GameLibrary
from envharness.bridges.alfworld.goal import goal_reached
from envharness.bridges.base import Bridge
from envharness.core.errors import SpecError, ThreadError
from envharness.core.tool import Tool
from envharness.core.types import (
    Action,
    Capabilities,
    EnvResponse,
    EvaluationResult,
    JsonDict,
    Observation,
    ResetResponse,
)

_GOAL = re.compile(r"Your task is to: (?P<goal>.+?)\.?\s*$", re.MULTILINE)


class AlfworldOptions(BaseModel):
    """The options of `make("alfworld", ...)`. A game is named by `task`, or by `split` and `index`."""

    model_config = ConfigDict(frozen=True, extra="forbid", strict=True)

    task: str | None = None
    """The task's id: the game's folder relative to the data folder, or `builtin/NAME`."""
    split: str | None = None
    """`train`, `valid_seen`, `valid_unseen` or `builtin`: what `index` counts in and `list_tasks` lists."""
    index: int | None = Field(default=None, ge=0)
    """Position in the sorted ids of the split. Without task and index: 0."""
    data: str | None = None
    """The folder that holds `json_2.1.1`; None: what ALFWORLD_DATA says. Games in it are code and are run as such."""
    max_steps: int = Field(default=50, ge=1)
    """Commands after which the episode is truncated."""
    tolerant: bool = False
    """Whether near misses of a command (capitals, articles, `put ... in/on ...`) are taken for what they mean."""
    repetition_guard: RepetitionGuard | None = None
    """When to end the episode of an agent that goes in circles; None: never."""


class Act(Tool):
    """The one tool."""

    name: ClassVar[str] = "act"

    def __init__(self, env: Alfworld) -> None:
        self._env = env

    def invoke(self, command: str) -> EnvResponse:
        """Do one thing in the house. Only the admissible commands of the observation work, and only to the letter.

        Args:
            command: What to do, such as 'go to desk 1', 'open drawer 2', 'take mug 1 from desk 1',
                'move mug 1 to shelf 1', 'clean mug 1 with sinkbasin 1', 'use desklamp 1', 'look' or 'inventory'.
        """
        return self._env.send(command)


class Alfworld(Bridge):
    """An ALFWorld game. The verifier is the engine's own goal test; there is no partial score.

    An observation shows the engine's words, the goal and the admissible commands; its data holds the same under
    `feedback`, `goal` and `admissible_commands`. A command that matches none of them does nothing and is marked
    `info["ineffective"]`; with `tolerant`, a near miss is mapped and `info["mapped_command"]` says to what. The game
    is the same under every seed. With neither task nor split the task is the first built-in game.

    An environment stays on the thread that reset it first: a call from another one raises ThreadError. Environments on
    several threads of one process take turns in the engine, so only processes make them faster.
    """

    def __init__(self, **options: Any) -> None:
        """Find the game; nothing is loaded before the first reset. `options` are those of AlfworldOptions.

        Raises pydantic.ValidationError (SpecError through `make`) for a wrong option, SpecError where both task and
        index are given, TaskError where there is no such game, MissingDataError where the games are not installed.
        """
        super().__init__()
        self._options = AlfworldOptions.model_validate(options)
        self._library = GameLibrary(Path(self._options.data) if self._options.data is not None else None)
        self._game = self._library.find(self._named_task())
        self._tools = (Act(self),)
        self._engine: GameEngine | None = None
        self._thread: threading.Thread | None = None
        self._step_limit = self._options.max_steps

    def _named_task(self) -> str:
        chosen = self._options
        if chosen.task is not None:
            if chosen.index is not None:
                raise SpecError("task and index both name a game; give one of them", place="alfworld options")
            return chosen.task
        tasks = self._library.task_ids(chosen.split or "builtin")
        index = chosen.index or 0
        if chosen.index is not None and chosen.split is None:
            raise SpecError("index counts in a split; give split too", place="alfworld options")
        if index >= len(tasks):
            raise SpecError(f"index {index} is past the {len(tasks)} games of split {chosen.split!r}", place="index")
        return tasks[index]

    # --- the episode -------------------------------------------------------------------------------------------------

    def reset(self, seed: int | None = None, options: JsonDict | None = None) -> ResetResponse:
        """Start the game. Raises ThreadError before anything changes where another thread plays it."""
        self._require_thread()
        return super().reset(seed, options)

    def _start(self, seed: int | None, options: JsonDict) -> ResetResponse:
        del seed  # the game has no randomness
        self._step_limit = self._take_step_limit(options, self._options.max_steps)
        self._require_all_taken(options)
        if self._engine is None:
            with _data_folder_left_alone():
                self._engine = engine.lease(self._game)
        self._show(self._engine.restart())
        goal = _GOAL.search(self._frame.feedback)
        self._goal = goal["goal"] if goal else ""
        self._steps = 0
        guard = self._options.repetition_guard
        self._watch = RepetitionWatch(guard) if guard else None
        return ResetResponse(observation=self._look(), info={"task": self.task_id})

    def send(self, command: str) -> EnvResponse:
        """Send one command to the engine; called by the tool."""
        info: JsonDict = {}
        if self._options.tolerant and command not in self._frame.admissible_commands:
            mapped = near_miss(command, self._frame.admissible_commands)
            if mapped is not None:
                info["mapped_command"] = command = mapped
        frame = self._running_engine().step(command)
        self._show(frame)
        self._steps += 1
        if not frame.effective:
            info["ineffective"] = True
        truncated = not frame.won and self._steps >= self._step_limit
        if not frame.won and self._watch is not None and self._watch.add(command, frame.feedback):
            info["repetition"] = True
            truncated = True
        return EnvResponse(
            observation=self._look(),
            reward=1.0 if frame.won else 0.0,
            terminated=frame.won,
            truncated=truncated,
            info=info,
        )

    def _look(self) -> Observation:
        commands = list(self._frame.admissible_commands)
        goal_line = f"Your task is to: {self._goal}."
        parts = [self._frame.feedback]
        if goal_line not in self._frame.feedback:
            parts.append(goal_line)
        parts.append("\n".join(["Admissible commands:", *(f"- {command}" for command in commands)]))
        return Observation(
            text="\n\n".join(parts),
            data={
                "feedback": self._frame.feedback,
                "goal": self._goal,
                "admissible_commands": [*commands],
            },
        )

    def evaluate(self) -> EvaluationResult:
        """Ask the engine whether the goal is reached. Score is 1 or 0."""
        self._require("evaluate", "running", "ended")
        self._require_thread()
        won = self._frame.won
        return EvaluationResult(success=won, score=1.0 if won else 0.0, metrics={"steps": self._steps})

    def notify_replay_complete(self) -> None:
        """Start counting steps and repetitions here: what a Stage replayed is not the policy's."""
        self._steps = 0
        guard = self._options.repetition_guard
        self._watch = RepetitionWatch(guard) if guard else None

    def _release(self) -> None:
        if self._engine is not None:
            engine.give_back(self._engine)
            self._engine = None

    def _show(self, frame: Frame) -> None:
        self._frame = frame
        self._view: JsonDict | None = None

    def _require_thread(self) -> None:
        """Bind this environment to the thread that resets it first. Raises ThreadError on another one."""
        current = threading.current_thread()
        if self._thread is not None and self._thread is not current and self._thread.is_alive():
            raise ThreadError(
                f"alfworld: this environment was reset on thread {self._thread.name!r} and is used from "
                f"{current.name!r}; its engine is not thread-safe, so keep each environment on one thread"
            )
        self._thread = current

    def _running_engine(self) -> GameEngine:
        self._require_thread()
        assert self._engine is not None  # noqa: S101  an episode runs, so reset has leased one
        return self._engine

    # --- what it says about itself -----------------------------------------------------------------------------------

    def tools(self) -> Sequence[Tool]:
        """Return the one tool."""
        return self._tools

    @property
    def capabilities(self) -> Capabilities:
        """What this bridge can do: no snapshot in mid-episode, but forks go on; one thread a process."""
        return Capabilities(fork_safe=True, seeded=False, step_limit_option=True)

    @property
    def task_id(self) -> str:
        """The game's folder relative to the data folder, or `builtin/NAME`."""
        return self._game.task_id

    def list_tasks(self) -> list[str]:
        """Return the ids of the option `split`, or of all games in the data folder and the built-in ones."""
        return self._library.task_ids(self._options.split)

    def get_env_state(self) -> JsonDict:
        """Return what the engine knows, seen by the agent or not."""
        self._require("get_env_state", "running", "ended")
        running = self._running_engine()
        if self._view is None:
            facts = running.facts(state.PREDICATES)
            self._view = state.view(facts).as_json()
        found = {
            "task": self.task_id,
            "goal": self._goal,
            **self._view,
            "admissible_commands": [*self._frame.admissible_commands],
            "steps": self._steps,
            "max_steps": self._step_limit,
            "won": self._frame.won,
        }
        copy: JsonDict = orjson.loads(orjson.dumps(found))
        return copy

    def env_state_schema(self) -> str:
        """Describe the state."""
        return state.SCHEMA

    def reference_solution(self) -> list[Action] | None:
        """Return the walkthrough that comes with the game, or None where it has none."""
        commands = self._game.walkthrough()
        return [Action(name=Act.name, kwargs={"command": command}) for command in commands] if commands else None

    def goal_reached(self, state: JsonDict) -> bool | None:
        """Compare the house with the goal's words; None where these are not understood. The engine is not asked."""
        return goal_reached(state)

    def save_state(self) -> JsonDict:
        """Return the task: an episode can be started again, not gone on with."""
        return {"task": self.task_id}

    @classmethod
    def from_state(cls, state: JsonDict, **options: Any) -> Self:
        """Make the environment of the task that was saved. Raises SpecError where `options` name another one."""
        if state.keys() != {"task"}:
            raise SpecError(f"expected only the key 'task', found {sorted(state)}", place="state")
        named = {"task", "split", "index"} & options.keys()
        env = cls(**options) if named else cls(task=state["task"], **options)
        if env.task_id != state["task"]:
            raise SpecError(f"saved from {state['task']!r}, but the options name {env.task_id!r}", place="state.task")
        return env


@contextmanager
def _data_folder_left_alone() -> Generator[None]:
    """Undo that the package `alfworld` sets ALFWORLD_DATA, where it is not set, for the whole process on import."""
    unset = "ALFWORLD_DATA" not in os.environ
    try:
        yield
    finally:
        if unset:
            os.environ.pop("ALFWORLD_DATA", None)
