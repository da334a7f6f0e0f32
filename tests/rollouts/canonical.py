"""What of episodes must not depend on where they were played."""

from __future__ import annotations

from typing import Any

from envharness.core.trace import Episode
from envharness.rollouts.job import RolloutJob


def canonical(results: list[tuple[RolloutJob, Episode]]) -> dict[int, dict[str, Any]]:
    """Episodes by index, without what names the machinery that played them."""
    parts = {"attempt", "worker", "seconds", "wasted", "usage"}
    found: dict[int, dict[str, Any]] = {}
    for played, episode in results:
        content = episode.model_dump(mode="json", exclude=parts)
        for part in (content["start"], *content["steps"]):
            for timing in [key for key in part if "seconds" in key]:
                del part[timing]
        assert played.index not in found, "an episode came twice"
        found[played.index] = content
    return found
