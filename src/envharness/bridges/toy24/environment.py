"""The environment: the state of one game, what is shown of it, its verifier and its snapshot."""

from __future__ import annotations

from collections.abc import Sequence
from fractions import Fraction
from typing import Any, Literal, Self

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from envharness.bridges.base import Bridge
from envharness.bridges.toy24.arithmetic import Move, Operation, hand_after, hand_of, read_number, solve
from envharness.bridges.toy24.puzzles import TARGET, puzzle, task_ids
from envharness.bridges.toy24.tools import Combine, ResetNumbers, Stop
from envharness.core.errors import ConfigError, SpecError
from envharness.core.messages import first_problem
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
)

FEWEST, MOST = 2, 5
"""How many numbers a puzzle may have."""
LARGEST_NUMBER = 1000
CUSTOM = "custom"
"""The task id of a puzzle given by its numbers."""


class _Game(BaseModel):
    """The whole state of an episode: this is the snapshot. Numbers are written exactly, as `8` or `8/3`."""

    model_config = ConfigDict(extra="forbid")

    deal: int = 0
    numbers: list[str]
    dealt: list[str]
    moves: list[str] = Field(default_factory=list[str])
    steps: int = Field(default=0, ge=0)
    resets: int = Field(default=0, ge=0)
    message: str = ""
    phase: Literal["new", "running", "ended"] = "new"
    step_limit: int | None = Field(default=None, ge=1)
    """The reset option `max_steps`; None is the constructor's."""


class _Told(BaseModel):
    """The part of the state that tells how the episode went; what the game holds now is left to the verifier."""

    target: int
    dealt: list[str]
    moves: list[str]


class Toy24(Bridge):
    """The 24 game: combine all numbers, each used once, into a single one that equals the target.

    The episode ends by itself once a single number equal to the target is left, on `stop`, or (truncated) after
    `max_steps` calls. The verifier: exactly one number is left and it equals the target.
    """

    def __init__(
        self,
        task: str | None = None,
        *,
        numbers: list[int] | None = None,
        target: int = TARGET,
        max_steps: int = 12,
        puzzle_seed: int = 0,
    ) -> None:
        """Choose a puzzle.

        Args:
            task: One of `list_tasks()`; None is `easy-0000`, or `custom` where `numbers` are given.
            numbers: Two to five whole numbers from 1 to 1000 to play with instead of a generated puzzle.
            target: The whole number to reach, 0 to 1000000. Generated puzzles are solvable for 24 only.
            max_steps: Calls after which the episode is truncated, 1 or more. Refused calls are not counted.
            puzzle_seed: Which three hundred generated puzzles to play.

        Raises:
            TaskError: there is no such task.
            ConfigError: an option is out of its range.
        """
        super().__init__()
        self._task, dealt = _chosen(task, numbers, puzzle_seed)
        if not 0 <= target <= 1_000_000:  # noqa: PLR2004  the range is documented where the option is
            raise ConfigError(f"toy24: target must be from 0 to 1000000, not {target}")
        if max_steps < 1:
            raise ConfigError(f"toy24: max_steps must be 1 or more, not {max_steps}")
        self._numbers = dealt
        self._target = target
        self._max_steps = max_steps
        written = [str(number) for number in dealt]
        self._game = _Game(numbers=written, dealt=written)
        self._tools = (Combine(self), ResetNumbers(self), Stop(self))

    # --- what it says about itself -----------------------------------------------------------------------------------

    @property
    def capabilities(self) -> Capabilities:
        """A full snapshot; safe to fork and to run on many threads."""
        return Capabilities(state="full", fork_safe=True, thread_safe=True, step_limit_option=True)

    @property
    def task_id(self) -> str:
        """The task, or `custom`."""
        return self._task

    def list_tasks(self) -> list[str]:
        """Return the ids of the generated puzzles."""
        return task_ids()

    def tools(self) -> Sequence[Tool]:
        """Return combine, reset_numbers and stop."""
        return self._tools

    def get_env_state(self) -> JsonDict:
        """Return what hooks may read."""
        game = self._game
        return {
            "deal": game.deal,
            "target": self._target,
            "numbers": list(game.numbers),
            "dealt": list(game.dealt),
            "moves": list(game.moves),
            "steps": game.steps,
            "steps_left": self._step_limit - game.steps,
            "resets": game.resets,
            "solved": self._solved,
        }

    def env_state_schema(self) -> str:
        """Describe the state."""
        return (
            "deal: int - seed of the episode; it decides the order in which the numbers are dealt\n"
            "target: int - the number to reach\n"
            'numbers: list[str] - the numbers left, each written exactly, such as "8" or "8/3"\n'
            "dealt: list[str] - the numbers of the start, in the order in which they were dealt\n"
            'moves: list[str] - combinations since the start or the last reset_numbers, such as "8 * 3 = 24"\n'
            "steps: int - calls so far, without refused ones\n"
            "steps_left: int - calls until the episode is truncated\n"
            "resets: int - how often reset_numbers took moves back\n"
            "solved: bool - whether a single number equal to the target is left"
        )

    def reference_solution(self) -> list[Action] | None:
        """Return the moves of a winning line, or None for given numbers that cannot reach the target."""
        line = solve(hand_of([Fraction(number) for number in self._numbers]), Fraction(self._target))
        if line is None:
            return None
        return [
            Action(
                name="combine",
                kwargs={"left": str(move.left), "operation": move.operation, "right": str(move.right)},
            )
            for move in line
        ]

    def goal_reached(self, state: JsonDict) -> bool | None:
        """Play the moves of `state` again from the numbers dealt; None where that is not what a state of Toy24 says."""
        try:
            told = _Told.model_validate(state)
        except ValidationError:
            return None
        left = hand_after(told.dealt, told.moves)
        return None if left is None else left == (Fraction(told.target),)

    # --- the episode -------------------------------------------------------------------------------------------------

    def _start(self, seed: int | None, options: JsonDict) -> ResetResponse:
        limit = self._take_step_limit(options, self._max_steps)
        self._require_all_taken(options)
        deal = 0 if seed is None else seed
        dealt = [str(number) for number in self._numbers]
        stream(deal, "toy24", "order").shuffle(dealt)
        self._game = _Game(
            deal=deal, numbers=dealt, dealt=list(dealt), message="A new deal.", phase="running", step_limit=limit
        )
        return ResetResponse(observation=self._look(), info={"task": self._task})

    def combine(self, left: str, operation: Operation, right: str) -> EnvResponse:
        """Combine two numbers of the hand; changes nothing but the step count where that is impossible."""
        game = self._game
        rest = [Fraction(number) for number in game.numbers]
        taken: list[Fraction] = []
        for text in (left, right):
            number = read_number(text)
            if number is None or number not in rest:
                return self._nothing(f"there is no {text[:20]!r} among {', '.join(game.numbers)}")
            rest.remove(number)
            taken.append(number)
        first, second = taken
        if operation == "/" and second == 0:
            return self._nothing("a division by zero has no result")
        move = Move(first, operation, second)
        game.numbers = _replaced(game.numbers, first, second, move.result)
        game.message = f"{move} = {move.result}."
        game.moves.append(f"{move} = {move.result}")
        return self._respond(terminated=self._solved)

    def reset_numbers(self) -> EnvResponse:
        """Take back all moves."""
        game = self._game
        if not game.moves:
            return self._nothing(f"no move was made, and the numbers are {', '.join(game.numbers)}")
        game.numbers, game.moves = list(game.dealt), []
        game.resets += 1
        game.message = f"All moves are taken back: the numbers are {', '.join(game.numbers)}."
        return self._respond()

    def stop(self) -> EnvResponse:
        """End the episode."""
        self._game.message = "You stopped."
        return self._respond(terminated=True)

    def evaluate(self) -> EvaluationResult:
        """Judge: exactly one number is left, and it equals the target. The score is 1 or 0."""
        self._require("evaluate", "running", "ended")
        solved = self._solved
        game = self._game
        return EvaluationResult(
            success=solved,
            score=float(solved),
            metrics={"numbers_left": len(game.numbers), "steps": game.steps, "resets": game.resets},
        )

    def notify_replay_complete(self) -> None:
        """Count steps from here on: what a Stage replayed is not the policy's."""
        self._game.steps = 0

    @property
    def _step_limit(self) -> int:
        return self._game.step_limit or self._max_steps

    @property
    def _solved(self) -> bool:
        return [Fraction(number) for number in self._game.numbers] == [Fraction(self._target)]

    def _nothing(self, why: str) -> EnvResponse:
        """Answer a call that was understood but cannot be carried out."""
        self._game.message = f"Nothing happens: {why}."
        return self._respond(ineffective=True)

    def _respond(self, *, terminated: bool = False, ineffective: bool = False) -> EnvResponse:
        game = self._game
        game.steps += 1
        truncated = not terminated and game.steps >= self._step_limit
        if terminated or truncated:
            game.phase = "ended"
        return EnvResponse(
            observation=self._look(),
            reward=float(terminated and self._solved),
            terminated=terminated,
            truncated=truncated,
            info={"ineffective": True} if ineffective else {},
        )

    def _look(self) -> Observation:
        game = self._game
        lines = [
            game.message,
            f"Target: {self._target}",
            f"Numbers left ({len(game.numbers)}): {', '.join(game.numbers)}",
            f"Moves made: {'; '.join(game.moves) or 'none'}",
            f"Steps left: {self._step_limit - game.steps}",
        ]
        if game.phase == "ended":
            lines.append("The puzzle is solved." if self._solved else "The episode is over, the puzzle is not solved.")
        else:
            lines.append("Use every number exactly once: combine until only the target is left.")
        data: JsonDict = {
            "message": game.message,
            "target": self._target,
            "numbers": list(game.numbers),
            "moves": list(game.moves),
            "steps_left": self._step_limit - game.steps,
        }
        return Observation(text="\n".join(lines), data=data)

    # --- as data -----------------------------------------------------------------------------------------------------

    def save_state(self) -> JsonDict:
        """Return the game as it stands, the middle of an episode included."""
        return self._game.model_dump(mode="json")

    @classmethod
    def from_state(cls, state: JsonDict, **options: Any) -> Self:
        """Go on from a snapshot; `options` are the constructor's. Raises SpecError where the two do not fit."""
        env = cls(**options)
        try:
            game = _Game.model_validate(state)
        except ValidationError as error:
            where, message = first_problem(error)
            raise SpecError(f"not a snapshot of toy24: {message}", place=f"state.{where}") from error
        written = [str(number) for number in env._numbers]
        if sorted(game.dealt) != sorted(written):
            raise SpecError(
                f"the snapshot was dealt {', '.join(game.dealt)}, but {env.task_id} has {', '.join(written)}",
                place="state.dealt",
            )
        if not game.numbers or any(read_number(number) is None for number in game.numbers):
            raise SpecError(f"these are not numbers: {game.numbers}", place="state.numbers")
        env._game = game
        env._phase = game.phase
        return env


def _chosen(task: str | None, numbers: list[int] | None, puzzle_seed: int) -> tuple[str, tuple[int, ...]]:
    """Return the task's id and numbers."""
    if numbers is None:
        chosen = "easy-0000" if task is None else task
        return chosen, puzzle(chosen, puzzle_seed)
    if task not in {None, CUSTOM}:
        raise ConfigError(f"toy24: give a task or numbers, not both (got task={task!r} and numbers={numbers})")
    if not FEWEST <= len(numbers) <= MOST or any(not 1 <= number <= LARGEST_NUMBER for number in numbers):
        raise ConfigError(
            f"toy24: numbers must be {FEWEST} to {MOST} whole numbers from 1 to {LARGEST_NUMBER}, not {numbers}"
        )
    return CUSTOM, tuple(numbers)


def _replaced(numbers: list[str], first: Fraction, second: Fraction, result: Fraction) -> list[str]:
    """Return the hand with the result in the place of `first` and without `second`."""
    values = [Fraction(number) for number in numbers]
    place = values.index(first)
    other = next(index for index, value in enumerate(values) if value == second and index != place)
    values[place] = result
    del values[other]
    return [str(value) for value in values]
