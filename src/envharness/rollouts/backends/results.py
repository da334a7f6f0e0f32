"""What the pool's supervisor tells: what was played, what was given back, and what was dropped has cost."""

from __future__ import annotations

from dataclasses import dataclass

from envharness.core.trace import Episode
from envharness.core.usage import Usage
from envharness.rollouts.backends.worker_process import Ticket


@dataclass(frozen=True)
class Finished:
    """A ticket that was played, or whose worker was lost on the way."""

    ticket: Ticket
    played: bytes | Episode
    """The episode's JSON as the worker sent it; an episode where there is nothing but how it was lost."""
    worker: str


@dataclass(frozen=True)
class Withdrawn:
    """A job of that generation that was taken back before it was begun."""

    generation: int


@dataclass(frozen=True)
class Cut:
    """A ticket that was dropped, and what was used for it, as far as it has not been told before."""

    ticket: Ticket
    used: Usage


@dataclass(frozen=True)
class AllEnded:
    """All workers that played what was dropped have ended: no more of it will be told."""

    cancels: int
    """How often everything was dropped up to then."""


Told = Finished | Withdrawn | Cut | AllEnded
