"""A policy that is any program: it is told each turn as a line of JSON and answers with one."""

from __future__ import annotations

import os
import shlex
from collections.abc import Sequence
from pathlib import Path
from typing import cast

import orjson
from pydantic import ValidationError

from envharness.core.errors import ConfigError, PolicyError
from envharness.core.messages import one_line
from envharness.core.policy import Decision, Turn
from envharness.policies.program import Program

PROTOCOL = 1
"""Version of the exchange, told in every turn."""

SECRET_LENGTH = 8
"""The value of a variable that is named to a program is taken for a secret where it has so many characters."""

_MINIMAL_PATH = "/usr/local/bin:/usr/bin:/bin"
_KEYS = frozenset(Decision.model_fields)


class CommandPolicy:
    """Runs one program an episode, started at the first turn and killed, with its children, at the end.

    To the program, on one line: `{"protocol": 1, "seed": int, "step": int, "observation": {"text", "data"}, "tools":
    [{"name", "description", "parameters"}, ...]}`. From it, on one line and flushed: `{"action": {"name", "kwargs"}}`,
    `{"action": null}` to let the turn pass, or `{"stop": true}`; `text` and `usage` may be added.
    """

    def __init__(
        self,
        seed: int,
        *,
        command: str | Sequence[str],
        seconds: float = 60.0,
        environment: Sequence[str] = (),
        folder: str | None = None,
    ) -> None:
        """Say what to run; nothing is started yet.

        Args:
            seed: Told to the program, which may draw its randomness from it.
            command: The program and its arguments, as a list, or as one string that is split as a shell would. No
                shell is involved.
            seconds: Time for each answer, the start of the program included.
            environment: Names of the variables that the program may see. It sees no others but a minimal PATH. Their
                values are replaced by their names in what it says (`text`, errors), because that is stored.
            folder: Working folder of the program; None is the current one.

        Raises:
            ConfigError: the command is empty, `seconds` is not positive, or a named variable is not set.
        """
        environment = [environment] if isinstance(environment, str) else environment
        _require_types(command, seconds, environment)
        try:
            self._command = shlex.split(command) if isinstance(command, str) else [str(part) for part in command]
        except ValueError as error:
            raise ConfigError(f"policy command: cannot split {command!r}: {error}") from error
        if not self._command or not self._command[0]:
            raise ConfigError("policy command: the command is empty")
        if not seconds > 0:
            raise ConfigError(f"policy command: seconds must be more than 0, not {seconds}")
        if missing := [name for name in environment if name not in os.environ]:
            raise ConfigError(f"policy command: environment variable {missing[0]!r} is named but not set")
        self._seed = seed
        self._seconds = seconds
        self._environment = {"PATH": _MINIMAL_PATH, **{name: os.environ[name] for name in environment}}
        self._secrets = {
            value: name for name, value in self._environment.items() if name != "PATH" and len(value) >= SECRET_LENGTH
        }
        self._folder = Path(folder) if folder is not None else None
        self._program: Program | None = None
        self._closed = False

    async def act(self, turn: Turn) -> Decision:
        """Ask the program. Raises PolicyError where it gives no proper answer, with the end of what it complained."""
        if self._closed:
            raise PolicyError("policy command: this policy is closed; one instance plays one episode")
        try:
            decision = await self._ask(turn)
        except PolicyError as error:
            raise PolicyError(self._without_secrets(str(error))) from error
        return decision.model_copy(update={"text": self._without_secrets(decision.text)})

    async def close(self) -> None:
        """Kill the program with its children. Idempotent."""
        self._closed = True
        if self._program is not None:
            self._program.close()

    async def _ask(self, turn: Turn) -> Decision:
        if self._program is None:
            self._program = Program(self._command, environment=self._environment, folder=self._folder)
        question = {"protocol": PROTOCOL, "seed": self._seed, **turn.model_dump(mode="json")}
        answer = await self._program.exchange(orjson.dumps(question), self._seconds)
        try:
            return _decision(answer)
        except ValueError as error:
            shown = answer[:200].decode(errors="replace")
            raise self._program.failure(f"gave a wrong answer: {error}: {shown!r}") from error

    def _without_secrets(self, text: str) -> str:
        """Put the names of variables in the place of their values: what a program says of itself is stored."""
        for value, name in self._secrets.items():
            text = text.replace(value, f"${name}")
        return text


def _require_types(command: object, seconds: object, environment: object) -> None:
    """Check what a file or a command line may have given. Raises ConfigError."""
    if not isinstance(command, str | list | tuple):
        raise ConfigError(f"policy command: command must be text or a list of texts, not {command!r}")
    if not isinstance(seconds, int | float) or isinstance(seconds, bool):
        raise ConfigError(f"policy command: seconds must be a number, not {seconds!r}")
    names = cast("list[object]", environment) if isinstance(environment, list | tuple) else [None]
    if not all(isinstance(name, str) for name in names):
        raise ConfigError(f"policy command: environment must be a list of names of variables, not {environment!r}")


def _decision(answer: bytes) -> Decision:
    """Read the program's answer. Raises ValueError saying what is wrong with it."""
    fields = orjson.loads(answer)
    if not isinstance(fields, dict) or not {"action", "stop"} & fields.keys():
        raise ValueError("it is not an object with 'action' or 'stop'")
    if unknown := sorted(cast("dict[str, object]", fields).keys() - _KEYS):
        raise ValueError(f"unknown key {unknown[0]!r} (known: {', '.join(sorted(_KEYS))})")
    try:
        return Decision.model_validate(fields)
    except ValidationError as error:
        raise ValueError(one_line(error)) from error
