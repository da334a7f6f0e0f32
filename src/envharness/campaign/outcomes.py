"""What became of one task in one cell, as numbers that can be compared: from a rigging run's results."""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass

from envharness.core.trace import Episode
from envharness.core.types import Action
from envharness.rigger.config import RigConfig
from envharness.rigger.measurement import in_band
from envharness.rigger.objectives import SuccessBand
from envharness.rigger.patterns import leading
from envharness.rigger.records import Candidate, Measurement, TaskResult
from envharness.rigger.summary import accepted_round, deciding_measurement
from envharness.store.database import RunStore

_LITERAL = re.compile(r"'[^'\n]*'|\"[^\"\n]*\"|\b\d+(?:\.\d+)?\b")


@dataclass(frozen=True)
class Component:
    """An accepted component, by what kinds of it are told apart."""

    form: str
    """Template, tools of the Stage, and hook source without its literals: two of one form differ in values alone."""
    behaviour: str
    """Which hooks did what to which kinds of action in the rollouts that accepted it."""
    flaw: str
    """What it answers."""


@dataclass(frozen=True)
class TaskOutcome:
    """One task of one cell. A task that the machinery left undecided is in no band, and counts."""

    task: str
    status: str
    before: bool
    """In band by the rollouts of the baseline."""
    counted: bool
    """In band by the rollouts that decided, as the method counts."""
    fresh: bool | None
    """In band by rollouts that took no part in any decision; None where none were asked for."""
    probability: float | None
    """That the true rate is in band, by the fresh rollouts alone under a flat prior; None as above."""
    rollouts: int
    """Paid for until the decision, the baseline's among them, the fresh ones not."""
    component: Component | None
    """What was accepted."""

    @property
    def accepted(self) -> bool:
        """Whether a component was accepted."""
        return self.status == "accepted"

    @property
    def held(self) -> bool:
        """Whether a component was accepted and fresh rollouts find the task in band."""
        return self.accepted and bool(self.fresh)

    def within(self, budget: int) -> bool:
        """Whether it was in band, as counted, once `budget` rollouts were paid for."""
        return self.counted and self.rollouts <= budget


def most_rollouts(config: RigConfig) -> int:
    """Return the most rollouts a task of a run may pay for before it is decided: the baseline and every round."""
    return config.rollouts * (1 + config.rounds)


def batches_of(result: TaskResult) -> list[Measurement]:
    """Return every batch that the policy played for a task, the fresh ones last."""
    rounds = [entry.measured for entry in result.rounds]
    return [batch for batch in (result.baseline, *rounds, result.before, result.remeasured) if batch is not None]


def outcome_of(result: TaskResult, config: RigConfig, store: RunStore) -> TaskOutcome:
    """Return what became of a task. `store` holds the episodes that accepted its component."""
    decided = [result.baseline, *(entry.measured for entry in result.rounds if entry.measured)]
    fresh = result.remeasured
    accepted = accepted_round(result)
    return TaskOutcome(
        task=result.task,
        status=result.status,
        before=in_band(result.baseline, config.band),
        counted=in_band(deciding_measurement(result), config.band),
        fresh=in_band(fresh, config.band) if fresh else (False if config.remeasure else None),
        probability=(SuccessBand(*config.band).probability(fresh) if fresh else (0.0 if config.remeasure else None)),
        rollouts=count_distinct(decided),
        component=component_of(accepted.candidate, _played(accepted.measured, store)) if accepted else None,
    )


def count_distinct(batches: Iterable[Measurement]) -> int:
    """Return how many rollouts the batches hold; one that several of them rest on counts once."""
    found = list(batches)
    keys = {key for batch in found for key in batch.episodes}
    return len(keys) + sum(batch.asked for batch in found if not batch.episodes)


def component_of(candidate: Candidate, episodes: Iterable[Episode]) -> Component:
    """Return the kinds that a component is of."""
    stage = "; ".join(_kind(action) for action in candidate.in_env_actions)
    skeleton = _LITERAL.sub("_", candidate.contract_source)
    done = {
        f"{event.hook or event.component} {event.kind} {_kind(step.action)}"
        for episode in episodes
        for step in episode.steps
        for event in step.events
    }
    return Component(
        form=f"{candidate.template}|{stage}|{skeleton}",
        behaviour="\n".join(sorted(done | ({f"stage {stage}"} if stage else set()))),
        flaw=candidate.answers or "none",
    )


def _played(measured: Measurement | None, store: RunStore) -> Iterable[Episode]:
    found = (store.get_episode(key) for key in (measured.episodes if measured else ()))
    return [episode for episode in found if episode is not None]


def _kind(action: Action | None) -> str:
    """Return the tool, with the leading word of its argument where that is a single text: a command."""
    if action is None:
        return ""
    values = list(action.kwargs.values())
    if len(values) == 1 and isinstance(values[0], str):
        return f"{action.name} {leading(values[0])}"
    return action.name
