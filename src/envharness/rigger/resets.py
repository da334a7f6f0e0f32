"""Reset fidelity: whether the start that all rollouts of a task rest on is one and the same. Costs no rollout.

Two short episodes are played in environments of their own; before each, a component resets, plays, and resets again.
So both a start that is drawn anew and an episode that leaves its mark on the next one come to light.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from itertools import zip_longest

from envharness.core.errors import ConfigError, SpecError
from envharness.core.glimpse import Glimpse, difference
from envharness.core.messages import counted
from envharness.core.policy import PolicySpec
from envharness.core.trace import Episode
from envharness.rigger.config import RigConfig
from envharness.rigger.observe import TaskView
from envharness.rigger.probes import probe
from envharness.rigger.second_reset import TURNS, SecondReset
from envharness.rigger.seeds import TaskSeeds
from envharness.rollouts.engine import Engine
from envharness.rollouts.job import RolloutJob
from envharness.store.database import RunStore

PHASE = "rig/resets"
"""Where the store files the two episodes."""


def require_faithful_resets(view: TaskView, config: RigConfig, store: RunStore, engine: Engine) -> None:
    """Refuse an environment whose resets do not lead to one start, by the run's first task. Raises ConfigError.

    Nothing is asked of an environment that says of itself that it is not reversible. Where the episodes fail on the
    machinery's or a component's side nothing is known: the baseline will say what is wrong. Both are kept, together,
    where the run goes on: one that is refused binds its folder to nothing, and asks again once the bridge is mended.
    """
    if config.insist_unfaithful or not view.reversible:
        return
    try:
        jobs = fidelity_jobs(view, config)
    except SpecError:  # a stack that is as high as stacks may be; it takes no candidate either
        return
    if all(store.get_episode(job.key) is not None for job in jobs):
        return
    one, other = _played(engine, jobs)
    if one.valid and other.valid and (how := unfaithful(one, other, view.volatile)):
        raise ConfigError(
            f"task {view.task!r}: {how}; so no two rollouts would be about the same world. Mend the bridge's reset "
            f"(`envharness check` tells more), declare what may differ under volatile_state_keys, or set "
            "insist_unfaithful: true"
        )
    for job, episode in zip(jobs, (one, other), strict=True):
        store.put_episode(job.key, PHASE, episode, job.model_dump(mode="json"))


def fidelity_jobs(view: TaskView, config: RigConfig) -> tuple[RolloutJob, RolloutJob]:
    """Return two equal short episodes, each behind a second reset. Raises SpecError where the stack is too high."""
    actions = (view.reference or ())[:TURNS]
    plan = [action.model_dump(mode="json") for action in actions]
    job = RolloutJob(
        task=view.task,
        stack=view.base_stack.wrap(SecondReset.tag, actions=plan),
        policy=probe(actions) if actions else PolicySpec(id="random"),
        env_seed=TaskSeeds(config.seed, view.task, "").env,
        policy_seed=0,
        limits=config.limits.model_copy(update={"max_steps": min(TURNS, config.limits.max_steps)}),
    )
    return job, job.model_copy(update={"index": 1})


def unfaithful(one: Episode, other: Episode, volatile: Collection[str]) -> str:
    """Say how two episodes of the same seed and actions differ, or the starts within one; empty where all is alike."""
    for episode in (one, other):
        events = [] if episode.start is None else episode.start.events
        marks = [event for event in events if event.hook == "reset" and event.kind == "violation"]
        if marks:
            return f"a second reset with the same seed does not give the start of the first: {marks[0].detail}"
    for turns, (here, there) in enumerate(zip_longest(_glimpses(one, volatile), _glimpses(other, volatile))):
        if here is None or there is None:
            return (
                f"two plays of the same actions do not last equally long: one ends after {counted(turns - 1, 'turn')}"
            )
        if how := difference(here, there):
            when = f"differ after {counted(turns, 'turn')} of the same actions" if turns else "start differently"
            return f"two environments with the same seed {when}: {how}"
    return ""


def _glimpses(episode: Episode, volatile: Collection[str]) -> list[Glimpse]:
    start = episode.start
    first = [] if start is None else [Glimpse.of(start.state or {}, start.shown, volatile=volatile)]
    return first + [
        Glimpse.of(step.state or {}, step.shown, (step.reward, step.terminated, step.truncated), volatile=volatile)
        for step in episode.steps
    ]


def _played(engine: Engine, jobs: Sequence[RolloutJob]) -> list[Episode]:
    """Play the jobs and wait for them; they come back in their own order."""
    found: dict[str, Episode] = {}
    for job in jobs:
        engine.submit(job)
    while len(found) < len(jobs):
        if (finished := engine.next_result(1.0)) is not None:
            found[finished[0].key] = finished[1]
    return [found[job.key] for job in jobs]
