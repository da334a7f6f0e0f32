"""From episodes to a measurement, and what a measurement says. Pure; in index order whatever order they arrived in."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from envharness.core.trace import Episode
from envharness.rigger.records import Candidate, Measurement, Round


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


def batches_of(rounds: Iterable[Round], candidate: Candidate) -> list[Measurement]:
    """Return what rounds measured on this very candidate. An incomplete batch says nothing, nor does a void one."""
    return [entry.measured for entry in rounds if entry.candidate == candidate and counts(entry) and entry.measured]


def counts(entry: Round) -> bool:
    """Whether what a round measured is evidence: complete, and no hook failed in it."""
    return entry.measured is not None and entry.measured.complete and entry.verdict != "component_fault"


def pooled(batches: Sequence[Measurement]) -> Measurement:
    """Take several batches on the same stack together, in the order given. ValueError where there is none."""
    if not batches:
        raise ValueError("pooled: give at least one batch")
    if len(batches) == 1:
        return batches[0]
    valid = sum(batch.valid for batch in batches)
    steps = sum(batch.mean_steps * batch.valid for batch in batches)
    return Measurement(
        asked=sum(batch.asked for batch in batches),
        valid=valid,
        successes=sum(batch.successes for batch in batches),
        out_of_steps=sum(batch.out_of_steps for batch in batches),
        blocked_turns=sum(batch.blocked_turns for batch in batches),
        turns=sum(batch.turns for batch in batches),
        mean_steps=steps / valid if valid else 0.0,
        episodes=tuple(key for batch in batches for key in batch.episodes),
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
