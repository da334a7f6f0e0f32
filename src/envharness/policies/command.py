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
            environment: Names of the variables that the program may see. It sees no others but a minimal PATH.
            folder: Working folder of the program; None is the current one.

        Raises:
            ConfigError: the command is empty, `seconds` is not positive, or a named variable is not set.
        """
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
        self._folder = Path(folder) if folder is not None else None
        self._program: Program | None = None
        self._closed = False

    async def act(self, turn: Turn) -> Decision:
        """Ask the program. Raises PolicyError where it gives no proper answer, with the end of what it complained."""
        if self._closed:
            raise PolicyError("policy command: this policy is closed; one instance plays one episode")
        if self._program is None:
            self._program = Program(self._command, environment=self._environment, folder=self._folder)
        question = {"protocol": PROTOCOL, "seed": self._seed, **turn.model_dump(mode="json")}
        answer = await self._program.exchange(orjson.dumps(question), self._seconds)
        try:
            return _decision(answer)
        except ValueError as error:
            shown = answer[:200].decode(errors="replace")
            raise self._program.failure(f"gave a wrong answer: {error}: {shown!r}") from error

    async def close(self) -> None:
        """Kill the program with its children. Idempotent."""
        self._closed = True
        if self._program is not None:
            self._program.close()


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
