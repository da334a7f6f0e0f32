"""From episodes to a measurement, and what a measurement says. Pure; in index order whatever order they arrived in."""

from __future__ import annotations

from collections.abc import Sequence

from envharness.core.trace import Episode
from envharness.rigger.records import Measurement


def measure(episodes: Sequence[Episode], keys: Sequence[str]) -> Measurement:
    """Sum up one batch. `keys` are the job keys in index order, one for each episode asked for."""
    ordered = sorted(episodes, key=lambda episode: episode.index)
    valid = [episode for episode in ordered if episode.valid]
    steps = [len(episode.steps) for episode in valid]
    return Measurement(
        asked=len(keys),
        valid=len(valid),
        successes=sum(episode.success for episode in valid),
        out_of_steps=sum(episode.outcome.reason == "out_of_steps" for episode in valid if not episode.success),
        blocked_turns=sum(bool(step.blocked) for episode in valid for step in episode.steps),
        turns=sum(steps),
        mean_steps=sum(steps) / len(steps) if steps else 0.0,
        episodes=tuple(keys),
    )


def component_fault(episodes: Sequence[Episode]) -> str:
    """Return how a component failed in the batch, or an empty string. One fault voids the batch."""
    for episode in sorted(episodes, key=lambda episode: episode.index):
        if episode.outcome.kind == "invalid" and episode.outcome.reason == "component_fault":
            return f"rollout {episode.index}: {episode.outcome.detail or 'component fault'}"
    return ""


def in_band(measurement: Measurement, band: tuple[float, float]) -> bool:
    """Whether the success rate of a complete measurement lies in `band`, ends included."""
    rate = measurement.success_rate
    # The margin keeps 3 of 5 inside a band that ends at 0.6 whatever the rounding of either.
    return rate is not None and measurement.complete and band[0] - 1e-9 <= rate <= band[1] + 1e-9


def lost_to_limits(measurement: Measurement) -> bool:
    """Whether nothing was won and the losses were step limits or blocks: the mark of an unsolvable world."""
    if measurement.valid == 0 or measurement.successes:
        return False
    return measurement.out_of_steps == measurement.valid or 2 * measurement.blocked_turns >= max(measurement.turns, 1)
