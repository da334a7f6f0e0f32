"""Levels from a rigging run: every accepted stack, with why it was made and how the policy fared on it."""

from __future__ import annotations

from dataclasses import dataclass

from pydantic import TypeAdapter

from envharness.core.canonical import digest
from envharness.core.errors import ConfigError
from envharness.core.policy import PolicySpec
from envharness.core.spec import EnvironmentNode
from envharness.rigger.config import DesignerConfig
from envharness.rigger.curriculum.levels import Level, LevelOutcome, Lineage, stack_id
from envharness.rigger.records import Measurement, TaskResult
from envharness.rigger.results import load_results
from envharness.rigger.seeds import TaskSeeds
from envharness.rigger.summary import accepted_round
from envharness.rollouts.job import Limits
from envharness.store.database import RunStore

_SEED = TypeAdapter(int)


def policy_version(policy: PolicySpec) -> str:
    """Return a name for a policy as configured: its id and the start of a digest of its options."""
    return f"{policy.id}@{digest(policy.model_dump(mode='json'), 8)}"


def levels_of(store: RunStore, *, now: int, policy: str | None = None) -> list[Level]:
    """Return the levels that a rigging run accepted, measured in round `now` of the curriculum, in order of tasks.

    `policy` names the version of the policy; by default it is `policy_version` of the run's own. Raises ConfigError
    where the folder holds no rigging run.
    """
    if "designer" not in store.config or "policy" not in store.config:
        raise ConfigError(f"{store.folder} holds no rigging run (it was made by `envharness {store.command}`)")
    designer = DesignerConfig.model_validate(store.config["designer"]).id
    made = _Made(
        designer=designer,
        policy=policy or policy_version(PolicySpec.model_validate(store.config["policy"])),
        run=digest(store.config, 16),
        seed=_SEED.validate_python(store.config["seed"]),
        limits=Limits.model_validate(store.config["limits"]),
    )
    return [_level(result, made, now) for result in load_results(store, designer) if result.status == "accepted"]


@dataclass(frozen=True)
class _Made:
    """What all levels of a run share."""

    designer: str
    policy: str
    run: str
    seed: int
    limits: Limits


def _level(result: TaskResult, made: _Made, now: int) -> Level:
    entry = accepted_round(result)
    if entry is None:
        raise ValueError(f"task {result.task!r} is accepted without an accepted round")
    diagnosis = result.diagnosis or entry.diagnosis
    built_on_bare = isinstance(result.base_stack.stack, EnvironmentNode)
    lineage = Lineage(
        flaw=entry.candidate.answers or (diagnosis.flaw if diagnosis else "none"),
        diagnosis=diagnosis.text if diagnosis else "",
        direction=diagnosis.direction if diagnosis else "harden",
        designer=made.designer,
        template=entry.candidate.template,
        magnitude=entry.candidate.magnitude,
        policy=made.policy,
        run=made.run,
        parent=None if built_on_bare else stack_id(result.base_stack),
    )
    # Rollouts that accepted a component flatter it, so fresh ones count in their place where there are any.
    fresh = result.remeasured
    measured, which = (fresh, "fresh") if fresh is not None and fresh.valid else (entry.measured, "accepting")
    source = f"{made.run}/{which}"
    return Level(
        task=result.task,
        stack=result.final_stack,
        env_seed=TaskSeeds(made.seed, result.task, made.designer).env,
        limits=made.limits,
        lineage=lineage,
        outcomes=() if measured is None else (outcome_of(measured, policy=made.policy, now=now, source=source),),
    )


def outcome_of(measured: Measurement, *, policy: str, now: int, source: str) -> LevelOutcome:
    """Return a measurement as an outcome; rollouts that failed on the machinery's side are left out."""
    return LevelOutcome(policy=policy, round=now, source=source, successes=measured.successes, trials=measured.valid)
