"""From episodes to tallies and matched pairs. Pure; in index order whatever order they arrived in."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence

from envharness.campaign.harden.records import Pairs, Tally
from envharness.core.trace import Episode

Outcomes = Mapping[int, Tally]
"""The number of a rollout → its tally, which asks for one."""


def outcomes(episodes: Sequence[Episode]) -> Outcomes:
    """Return what became of each rollout of one task."""
    return {episode.index: _tally([episode]) for episode in sorted(episodes, key=lambda episode: episode.index)}


def outcomes_in_turn(first: Sequence[Episode], second: Sequence[Episode]) -> Outcomes:
    """Return what a serial chain of two tasks would have made of the rollouts of one number of each.

    A pair is won where both are, is lost for the reason of the first that is lost, and ends there. It is invalid where
    an episode that it needs is.
    """
    later = {episode.index: episode for episode in second}
    both = [(episode, later[episode.index]) for episode in first if episode.index in later]
    return {one.index: _tally([one, other] if one.success else [one]) for one, other in both}


def total(found: Outcomes) -> Tally:
    """Sum up."""
    return sum(found.values(), Tally())


def paired(before: Outcomes, after: Outcomes) -> Pairs:
    """Match rollouts of one number; those that are invalid on either side are left out."""
    numbers = [number for number in before if number in after and before[number].valid and after[number].valid]
    counts = Counter((before[number].won, after[number].won) for number in numbers)
    return Pairs(both=counts[1, 1], lost=counts[1, 0], gained=counts[0, 1], neither=counts[0, 0])


def _tally(played: Sequence[Episode]) -> Tally:
    """Return the tally of one rollout, played in one episode or in several, one after the other."""
    if not all(episode.valid for episode in played):
        return Tally(asked=1)
    lost = next((episode for episode in played if not episode.success), None)
    return Tally(
        asked=1,
        valid=1,
        won=int(lost is None),
        steps=sum(len(episode.steps) for episode in played),
        reasons={} if lost is None else {lost.outcome.reason: 1},
    )
