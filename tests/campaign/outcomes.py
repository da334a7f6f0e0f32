"""Outcomes for tests, by hand."""

from __future__ import annotations

from collections.abc import Sequence

from envharness.campaign.figures import Sample, draw_tasks
from envharness.campaign.outcomes import Component, TaskOutcome


def outcome(
    *, accepted: bool = True, rollouts: int = 10, fresh: bool | None = None, probability: float | None = None
) -> TaskOutcome:
    return TaskOutcome(
        task="t",
        status="accepted" if accepted else "rejected",
        before=False,
        counted=accepted,
        fresh=fresh,
        probability=probability,
        fresh_counts=(0, 0) if fresh is None else (50 if fresh else 80, 100),
        rollouts=rollouts,
        component=Component("form", "behaviour", "flaw") if accepted else None,
    )


def sample(tasks: Sequence[Sequence[TaskOutcome]], draws: int = 400) -> Sample:
    return Sample(tuple(map(tuple, tasks)), draw_tasks(len(tasks), draws))
