from __future__ import annotations

import asyncio
from typing import Any

import pytest

from envharness.core.policy import PolicySpec
from envharness.core.spec import StackSpec
from envharness.core.trace import Episode
from envharness.rollouts.episode import play
from envharness.rollouts.job import Limits, RolloutJob
from envharness.rollouts.replay import replay
from rollouts.hostile import job as kitchen_job
from rollouts.hostile import script

TOY = StackSpec.environment("toy24", task="easy-0001")
OTHER = StackSpec.environment("toy24", task="easy-0002")

CLOCK = frozenset({"clock"})


def toy_job(stack: StackSpec = TOY, policy: str = "solver") -> RolloutJob:
    return RolloutJob(
        task="any",
        stack=stack,
        policy=PolicySpec(id=policy),
        env_seed=3,
        policy_seed=5,
    )


def played(job: RolloutJob) -> Episode:
    return asyncio.run(play(job))


@pytest.mark.parametrize(
    "stack",
    [
        TOY,
        StackSpec.from_data(
            {
                "schema_version": 2,
                "stack": {
                    "kind": "chained",
                    "segments": [TOY.stack.model_dump(mode="json"), OTHER.stack.model_dump(mode="json")],
                },
            }
        ),
    ],
)
@pytest.mark.parametrize("limits", [{}, {"max_steps": 1}])
def test_a_stored_episode_replays_as_it_was(stack: StackSpec, limits: dict[str, int]) -> None:
    job = toy_job(stack).model_copy(update={"limits": Limits.model_validate(limits)})
    assert replay(job, played(job)) is None


def test_a_component_fault_is_reproduced() -> None:
    job = toy_job(TOY.wrap("stage", actions=[{"name": "fly"}]))
    episode = played(job)
    assert episode.outcome.reason == "component_fault"
    assert replay(job, episode) is None


def test_another_world_is_seen_at_the_start() -> None:
    found = replay(toy_job(OTHER), played(toy_job()))
    assert found is not None
    assert (found.step, found.field) == (None, "start.shown.text")
    assert found.stored != found.replayed


def test_an_edited_turn_is_named() -> None:
    job = toy_job()
    episode = played(job)
    episode.steps[1].shown.text = "Something else."
    found = replay(job, episode)
    assert found is not None
    assert (found.step, found.field, found.stored) == (1, "shown.text", '"Something else."')
    assert "Target" in found.replayed


def test_a_changed_verdict_is_named() -> None:
    job = toy_job()
    episode = played(job)
    assert episode.evaluation is not None
    episode.evaluation.score = 0.5
    found = replay(job, episode)
    assert found is not None
    assert (found.step, found.field) == (None, "evaluation.score")


def test_of_an_episode_that_became_invalid_the_recorded_turns_are_compared() -> None:
    episode = played(kitchen_job(policy=script([{"name": "take"}] * 2)))
    broken = episode.model_copy(
        update={
            "outcome": episode.outcome.model_copy(update={"kind": "invalid", "reason": "policy_error"}),
            "steps": episode.steps[:1],
            "evaluation": None,
        }
    )
    assert replay(kitchen_job(), broken, CLOCK) is None


def test_only_the_volatile_keys_named_may_differ() -> None:
    job = kitchen_job()
    episode = played(job)
    found = replay(job, episode)
    assert found is not None
    assert found.field == "start.state.clock"
    assert replay(job, episode, CLOCK) is None


@pytest.mark.parametrize("actions", [[None], [{"name": "fly"}], []])
def test_turns_without_effect_replay_too(actions: list[Any]) -> None:
    job = kitchen_job(policy=script(actions), max_steps=3)
    assert replay(job, played(job), CLOCK) is None
