"""The three tools of the 24 game."""

from __future__ import annotations

from typing import Protocol

from envharness.bridges.toy24.arithmetic import Operation
from envharness.core.tool import Tool
from envharness.core.types import EnvResponse


class Table(Protocol):
    """What the tools act on."""

    def combine(self, left: str, operation: Operation, right: str) -> EnvResponse:
        """Combine two numbers."""
        ...

    def reset_numbers(self) -> EnvResponse:
        """Take back all moves."""
        ...

    def stop(self) -> EnvResponse:
        """End the episode."""
        ...


class Combine(Tool):
    """Replace two numbers by one."""

    name = "combine"

    def __init__(self, table: Table) -> None:
        self._table = table

    def invoke(self, left: str, operation: Operation, right: str) -> EnvResponse:
        """Replace two of the numbers by the result of one exact operation: left operation right.

        Args:
            left: A number that is left, as it is written, such as "8" or "8/3".
            operation: The operation.
            right: Another number that is left; the same value only where it is there twice.
        """
        return self._table.combine(left, operation, right)


class ResetNumbers(Tool):
    """Go back to the start."""

    name = "reset_numbers"

    def __init__(self, table: Table) -> None:
        self._table = table

    def invoke(self) -> EnvResponse:
        """Take back all moves: the numbers are those of the start again. Costs a step like any other call."""
        return self._table.reset_numbers()


class Stop(Tool):
    """End the episode."""

    name = "stop"

    def __init__(self, table: Table) -> None:
        self._table = table

    def invoke(self) -> EnvResponse:
        """End the episode; what is left then is what counts. A puzzle that is solved ends by itself."""
        return self._table.stop()
