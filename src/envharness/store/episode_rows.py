"""How an episode is kept as a row: its numbers beside its packed body."""

from __future__ import annotations

import zlib
from dataclasses import dataclass

from envharness.core.errors import StoreError
from envharness.core.messages import one_line
from envharness.core.trace import Episode


@dataclass(frozen=True)
class EpisodeNote:
    """What is known of an episode without decoding it."""

    key: str
    phase: str
    task: str
    index: int
    outcome: str
    """success, failure or invalid."""
    reason: str
    steps: int
    seconds: float


@dataclass(frozen=True)
class PhaseCount:
    """How many episodes a phase of the run has so far."""

    phase: str
    episodes: int
    won: int
    invalid: int

    @property
    def lost(self) -> int:
        """The policy's own failures."""
        return self.episodes - self.won - self.invalid


def numbers_of(episode: Episode) -> tuple[str, str, int, float, str]:
    """Return what stands beside an episode's body: outcome, reason, steps, seconds and usage as JSON."""
    used = episode.usage + episode.wasted
    usage = used.model_dump_json() if used.calls else ""
    return (episode.outcome.kind, episode.outcome.reason, len(episode.steps), episode.seconds, usage)


def packed(key: str, episode: Episode) -> bytes:
    """Return the body. Raises StoreError for an episode that is not JSON."""
    try:
        return zlib.compress(episode.model_dump_json().encode())
    except ValueError as error:
        raise StoreError(f"episode {key} of task {episode.task!r} is not JSON: {one_line(error)}") from error
