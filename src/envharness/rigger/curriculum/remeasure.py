"""Measuring levels again: fresh rollouts of the policy as it is now, kept in a run folder like any others."""

from __future__ import annotations

from collections.abc import Sequence

from pydantic import BaseModel, ConfigDict, Field

from envharness.core.canonical import digest
from envharness.core.labels import labelled, run_id
from envharness.core.policy import PolicySpec
from envharness.core.seeding import derive_seed
from envharness.llm.make import client_for
from envharness.rigger.calls import ModelCalls
from envharness.rigger.curriculum.harvest import outcome_of
from envharness.rigger.curriculum.levels import Level, LevelOutcome
from envharness.rigger.driver import Driver
from envharness.rigger.measurement import measure
from envharness.rigger.records import Measurement
from envharness.rigger.requests import Batch, Work, play
from envharness.rollouts.engine import Engine
from envharness.rollouts.interrupts import StopRequest
from envharness.rollouts.job import RolloutJob
from envharness.rollouts.ledger import Budget, put_ledger
from envharness.rollouts.progress import Progress, SilentProgress
from envharness.store.database import RunStore

COMMAND = "curriculum remeasure"


class Remeasurement(BaseModel):
    """What decides the content of a re-measurement; a resumed one is held to it."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    levels: tuple[str, ...] = Field(min_length=1)
    """Ids, in order."""
    policy: PolicySpec
    version: str
    """What this version of the policy is called in the buffer."""
    round: int = Field(ge=0)
    rollouts: int = Field(ge=1, le=10_000)
    """A level."""
    seed: int = 0

    @property
    def source(self) -> str:
        """The name of the measurement: the same one is counted once."""
        return f"{COMMAND}/{digest(self.model_dump(mode='json'), 16)}"


def remeasure(
    plan: Remeasurement,
    levels: Sequence[Level],
    *,
    store: RunStore,
    engine: Engine,
    progress: Progress | None = None,
    budget: Budget | None = None,
    stop: StopRequest | None = None,
) -> list[tuple[str, LevelOutcome]]:
    """Play each of the plan's levels and return (level id, outcome) in the plan's order.

    What is in `store` already is not played again. Rollouts that failed on the machinery's side are not counted; a
    level of which none is valid has an outcome of no trials. Raises what `rig` raises.
    """
    known = {level.id: level for level in levels}
    progress = progress or SilentProgress()
    progress.begin("levels", len(plan.levels))
    calls = ModelCalls(client_for)
    driver = Driver[Measurement](
        store, engine, calls, budget=budget or Budget(), stop=stop or StopRequest(), on_silence=progress.say
    )
    found: dict[str, Measurement] = {}
    try:
        with labelled(run_id(store.folder)):
            for level, measured in driver.run((id_, _measured(plan, known[id_])) for id_ in plan.levels):
                found[level] = measured
                progress.advance(1)
    finally:
        calls.close()
        put_ledger(store, driver.ledger)
    return [
        (id_, outcome_of(found[id_], policy=plan.version, now=plan.round, source=plan.source)) for id_ in plan.levels
    ]


def _measured(plan: Remeasurement, level: Level) -> Work[Measurement]:
    jobs = tuple(
        RolloutJob(
            task=level.task,
            stack=level.stack,
            policy=plan.policy,
            env_seed=level.env_seed,
            policy_seed=derive_seed(plan.seed, "curriculum", level.id, plan.round, index),
            index=index,
            limits=level.limits,
            record_states=False,
        )
        for index in range(plan.rollouts)
    )
    episodes = yield from play(Batch(f"curriculum/{level.id}", jobs))
    return measure(episodes, [job.key for job in jobs])
