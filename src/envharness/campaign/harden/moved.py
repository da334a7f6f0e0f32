"""Variants with another start, or another end: staged on recorded actions, chained with another task of the suite."""

from __future__ import annotations

from collections.abc import Sequence

from envharness.campaign.harden.records import Variant
from envharness.campaign.harden.suite import Case, PlayedTask
from envharness.core.messages import counted
from envharness.rigger.observe import spell_all
from envharness.rigger.records import Candidate
from envharness.rigger.templates.detour import DETOUR

HALF_WON = Variant(id="staged/half-won", kind="staged", what="the episode starts half way into the shortest known win")
ASTRAY = Variant(
    id="staged/detour", kind="staged", what="the episode starts after recorded actions that lead off the shortest win"
)
NEXT_TASK = Variant(id="chained/next-task", kind="chained", what="the next task of the suite follows; both must be won")


def staged_cases(tasks: Sequence[PlayedTask]) -> list[list[Case]]:
    """Return the cases that start elsewhere: on the way of a known win, and off it."""
    half = [Case(HALF_WON, task, candidate) for task in tasks if (candidate := half_won(task)) is not None]
    made = [(task, DETOUR.build(task.evidence, 0.0)) for task in tasks]
    astray = [Case(ASTRAY, task, candidate) for task, candidate in made if candidate is not None]
    return [half, astray]


def half_won(task: PlayedTask) -> Candidate | None:
    """Play the first half of the shortest known win in advance; None where none of two actions is known."""
    win = next((win for win in task.wins if len(win) > 1), None)
    if win is None:
        return None
    start = win[: len(win) // 2]
    why = f"the episode starts {counted(len(start), 'action')} into a known win of {len(win)}: {spell_all(start)}"
    return Candidate(in_env_actions=list(start), rationale=why)


def chained_cases(tasks: Sequence[PlayedTask]) -> list[list[Case]]:
    """Return each task followed by the next one of the suite, the last by the first; none for a single task."""
    if len(tasks) < 2:  # noqa: PLR2004  a chain joins two
        return []
    return [[Case(NEXT_TASK, task, partner=tasks[(place + 1) % len(tasks)]) for place, task in enumerate(tasks)]]
