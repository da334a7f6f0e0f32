"""Tells that nobody answers a policy at all, so that a run stops instead of trying every rollout in vain."""

from __future__ import annotations

from dataclasses import dataclass, field

from envharness.core.errors import PolicyError
from envharness.core.messages import counted
from envharness.core.trace import Episode
from envharness.llm.failures import about_the_prompt

SILENT_ATTEMPTS = 8
"""Attempts at episodes in a row without one answer, after which a run that has no valid episode is stopped."""


@dataclass
class Silence:
    """Looks at the episodes of a run as they come, and finds out that its policy's model or program never answers.

    An attempt counts where the policy failed before its first turn, for a cause that lies not in the prompt. An episode
    that took a turn begins the count anew; a valid one ends the watch for good. Failures of one task alone are not
    enough where others were asked for: that task may be what the endpoint does not take.
    """

    over: bool = False
    """Whether the run has a valid episode, so that nothing is watched any more."""
    _asked: set[str] = field(default_factory=set[str])
    _tasks: set[str] = field(default_factory=set[str])
    _episodes: int = 0
    _attempts: int = 0
    _last: str = ""

    def ask(self, task: str) -> None:
        """Note that an episode of a task was asked for."""
        self._asked.add(task)

    def take(self, episode: Episode) -> str:
        """Look at an episode that was played. Returns a line for the first in a row that nobody answered, else ''."""
        outcome = episode.outcome
        self.over = self.over or episode.valid
        if self.over:
            return ""
        if episode.steps:
            self._tasks, self._episodes, self._attempts = set(), 0, 0
            return ""
        if outcome.reason != "policy_error" or about_the_prompt(outcome.detail):
            return ""
        self._tasks.add(episode.task)
        self._episodes += 1
        self._attempts += episode.attempt
        self._last = outcome.detail
        return f"the policy got no answer: {self._last}; trying on" if self._episodes == 1 else ""

    @property
    def complete(self) -> bool:
        """Whether nobody answers."""
        enough = self._attempts >= SILENT_ATTEMPTS and len(self._tasks) >= min(2, len(self._asked))
        return enough and not self.over

    def error(self) -> PolicyError:
        """Return what stops the run."""
        return PolicyError(
            f"the policy got no answer in {counted(self._episodes, 'episode')} ({self._attempts} attempts) and none "
            f"before; the last error: {self._last}. Stopped; check the model's endpoint or the policy's program, and "
            "give the same command to go on"
        )
