"""What commands print: results on standard output, everything else on standard error, JSON last where asked for."""

from __future__ import annotations

import json
import sys
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from rich.console import Console
from rich.text import Text

from envharness.core.messages import printable

if TYPE_CHECKING:
    from envharness.core.usage import Usage


def console() -> Console:
    """Return a console for results."""
    return Console(highlight=False)


def print_line(text: str) -> None:
    """Print one line of a result. `text` may come from a trace: nothing in it acts, and no terminal folds it."""
    Console(highlight=False, soft_wrap=True).print(Text(printable(text)))


def say(text: str) -> None:
    """Print one line about progress on standard error. `text` may come from a trace: nothing in it acts."""
    Console(stderr=True, highlight=False, soft_wrap=True).print(Text(printable(text)))


def failure(message: str, *, hint: str = "") -> None:
    """Print the one line of an error. `message` may hold anything: it is not markup, and cannot break the line."""
    line = printable(" ".join(message.split()))
    Console(stderr=True, highlight=False, soft_wrap=True).print(
        Text.assemble(("error: ", "bold red"), line, (f" ({hint})" if hint else "", "dim"))
    )


def usage_json(by_role: Mapping[str, Usage]) -> dict[str, Any]:
    """Return what models used, by role, as JSON."""
    return {role: usage.model_dump(mode="json") for role, usage in by_role.items()}


def print_json(data: Mapping[str, Any]) -> None:
    """End standard output with one JSON object on a line of its own."""
    sys.stdout.flush()
    # The standard library's encoder, because traces may hold integers of more than 64 bits; plain ASCII, because of
    # terminals that know nothing else.
    sys.stdout.write(json.dumps(data, separators=(",", ":"), allow_nan=False) + "\n")
    sys.stdout.flush()
