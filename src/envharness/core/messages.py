"""One-line messages: an error in a line, a validation's first problem, counted nouns, and text safe to print."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, get_args

from pydantic import BaseModel, ValidationError

_PLACE_PARTS = 6
"""Parts of a path that a message names: in a deeply nested value, the rest helps nobody."""


def first_problem(error: ValidationError) -> tuple[str, str]:
    """Return the place and the message of a validation's first problem.

    The place is a dotted path such as `actions.0.name`, empty where the value as a whole is wrong.
    """
    problem = error.errors(include_url=False, include_input=False)[0]
    return ".".join(str(part) for part in problem["loc"][:_PLACE_PARTS]), problem["msg"]


def fields_at(model: type[BaseModel], place: Sequence[str | int]) -> list[str]:
    """Return the names of the fields that may stand at `place` within `model`; empty where no nested model does."""
    current: Any = model
    for part in place:
        if isinstance(part, int):  # within a sequence, whose annotation was looked into already
            continue
        field = getattr(current, "model_fields", {}).get(part)
        annotation = field.annotation if field else None
        inner = (annotation, *get_args(annotation))
        current = next((one for one in inner if hasattr(one, "model_fields")), None)
    return list(getattr(current, "model_fields", {}))


def one_line(error: BaseException) -> str:
    """Return what an error says, in one line: a validation's first problem, or the first line of any other error.

    The name of the class where it says nothing.
    """
    if isinstance(error, ValidationError):
        return ": ".join(part for part in first_problem(error) if part)
    return next(iter(str(error).splitlines()), "") or type(error).__name__


def counted(number: int, noun: str) -> str:
    """Write a number with its noun, in the plural where it needs one: `1 task`, `2,000 tasks`."""
    return f"{number:,} {noun}" if number == 1 else f"{number:,} {noun}s"


def shortened(text: str, size: int) -> str:
    """Cut a text in its middle to at most `size` bytes of UTF-8, saying how much is gone; empty below 40 bytes."""
    raw = text.encode(errors="replace")
    if len(raw) <= size:
        return text
    room = size - 40
    if room <= 0:
        return ""
    head, tail = raw[: room * 2 // 3], raw[len(raw) - room // 3 :]
    gone = len(raw) - len(head) - len(tail)
    # Half characters at the two edges are dropped, never replaced by something longer.
    return f"{head.decode(errors='ignore')}\n[... {gone} bytes left out ...]\n{tail.decode(errors='ignore')}"


def printable(text: str) -> str:
    r"""Return `text` as one line with everything that could steer a terminal spelt out, as `\n` or `\x1b`."""
    return "".join(c if c.isprintable() else c.encode("unicode_escape").decode("ascii") for c in text)
