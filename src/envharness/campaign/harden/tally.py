"""From episodes to tallies. Pure; in index order whatever order they arrived in."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

from envharness.campaign.harden.records import Tally
from envharness.core.trace import Episode


def tally(episodes: Sequence[Episode]) -> Tally:
    """Sum up the rollouts of one task."""
    valid = [episode for episode in episodes if episode.valid]
    reasons = Counter(episode.outcome.reason for episode in valid if not episode.success)
    return Tally(
        asked=len(episodes),
        valid=len(valid),
        won=sum(episode.success for episode in valid),
        steps=sum(len(episode.steps) for episode in valid),
        reasons=dict(sorted(reasons.items())),
    )


def tally_in_turn(first: Sequence[Episode], second: Sequence[Episode]) -> Tally:
    """Sum up two tasks as a serial chain would, had each been played by itself: rollouts of one number belong together.

    A pair is won where both are, is lost for the reason of the first that is lost, and ends there. It is invalid where
    an episode that it needs is.
    """
    later = {episode.index: episode for episode in second}
    return sum((_pair(episode, later[episode.index]) for episode in first if episode.index in later), Tally())


def _pair(first: Episode, second: Episode) -> Tally:
    needed = [first, second] if first.success else [first]
    if not all(episode.valid for episode in needed):
        return Tally(asked=1)
    lost = next((episode for episode in needed if not episode.success), None)
    return Tally(
        asked=1,
        valid=1,
        won=int(lost is None),
        steps=sum(len(episode.steps) for episode in needed),
        reasons={} if lost is None else {lost.outcome.reason: 1},
    )
