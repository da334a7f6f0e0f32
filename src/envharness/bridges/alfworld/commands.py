"""Map a near miss of a command to the admissible one it stands for, and notice when an agent goes in circles."""

from __future__ import annotations

import re
from collections import deque
from collections.abc import Collection

from pydantic import BaseModel, ConfigDict, Field, model_validator

_ARTICLES = re.compile(r"\b(?:the|a|an)\s+")
_PUT = re.compile(r"^(?:put|place) (?P<item>.+?) (?:in/on|on/in|into|onto|in|on) (?P<receptacle>.+)$")


def near_miss(command: str, admissible: Collection[str]) -> str | None:
    """Return the admissible command that `command` differs from in form only, or None where there is none.

    Form is: capitals, spaces, articles, punctuation at the end, and `put X in/on Y` for `move X to Y`.
    """
    text = " ".join(command.lower().split()).rstrip(" .!,;")
    candidates = [text, _ARTICLES.sub("", text)]
    candidates += [_PUT.sub(r"move \g<item> to \g<receptacle>", candidate) for candidate in candidates]
    return next((candidate for candidate in candidates if candidate in admissible), None)


class RepetitionGuard(BaseModel):
    """When to end the episode of an agent that goes in circles."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    repeats: int = Field(default=3, ge=2)
    """The episode is truncated when the same command has got the same answer this often ..."""
    window: int = Field(default=3, ge=2)
    """... within this many steps. Equal to `repeats`: only without anything in between."""

    @model_validator(mode="after")
    def _fits(self) -> RepetitionGuard:
        if self.window < self.repeats:
            raise ValueError(f"window {self.window} is too small for {self.repeats} repeats")
        return self


class RepetitionWatch:
    """Counts repetitions in one episode. An answer that differs is progress, however often the command is repeated."""

    def __init__(self, guard: RepetitionGuard) -> None:
        self._guard = guard
        self._recent: deque[tuple[str, str]] = deque(maxlen=guard.window)

    def add(self, command: str, answer: str) -> bool:
        """Take one step and return whether the limit is reached."""
        self._recent.append((command, answer))
        return self._recent.count((command, answer)) >= self._guard.repeats
