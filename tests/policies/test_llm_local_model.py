"""The policy on a real language model over real HTTP. The model is weak: what is asserted is validity, not success."""

from __future__ import annotations

import importlib.util
from typing import cast

import pytest

from envharness.core.policy import PolicySpec
from envharness.core.spec import StackSpec
from envharness.core.trace import Episode, TraceStep
from envharness.core.types import JsonDict
from envharness.policies.formats import FormatName
from envharness.rollouts.engine import make_engine
from envharness.rollouts.episode import run_episode
from envharness.rollouts.job import Limits, RolloutJob
from local_model import served
from presence import absent

pytestmark = [pytest.mark.slow, pytest.mark.xdist_group("local_model")]

TURNS = 3
LIMITS = Limits(max_steps=TURNS)


def policy(address: str, format_name: FormatName, **options: object) -> PolicySpec:
    # Free text of such a model says nothing worth waiting for; an object has to be written to its end.
    longest = 96 if format_name == "json_schema" else 32
    chosen = {
        "model": served(address, max_tokens=longest, temperature=0.7),
        "format": format_name,
        "history_tokens": 3000,
        **options,
    }
    return PolicySpec(id="llm", options=cast("JsonDict", chosen))


def household() -> StackSpec:
    if importlib.util.find_spec("textworld") is None:
        raise absent("the ALFWorld engine is not installed; run scripts/install-alfworld")
    return StackSpec.environment("alfworld", task="builtin/mug-to-desk")


def assert_valid(episode: Episode) -> None:
    assert episode.valid, episode.outcome
    assert 1 <= len(episode.steps) <= TURNS
    assert episode.usage.calls == len(episode.steps)
    assert episode.usage.prompt > 0
    assert episode.usage.completion > 0
    for step in episode.steps:
        # either an action that reached the environment, or a reason that was shown
        assert step.action or step.refused
        assert step.shown.text.startswith(step.refused)


def admissible_before(episode: Episode, step: TraceStep) -> object:
    shown = episode.start.shown if episode.start and step.step == 0 else episode.steps[step.step - 1].shown
    return shown.data["admissible_commands"]


def test_json_schema_on_the_household_game_chooses_admissible_commands_only(local_model: str) -> None:
    chosen = policy(local_model, "json_schema", thought_characters=60)
    episode = run_episode(household(), chosen, limits=LIMITS)
    assert_valid(episode)
    for step in episode.steps:
        assert step.action is not None, step.refused
        assert step.action.name == "act"
        assert step.action.kwargs["command"] in cast("list[str]", admissible_before(episode, step))
        assert not step.refused
        assert step.text, "the thought comes first"


def test_json_schema_on_toy24_calls_tools_that_exist_with_arguments_that_fit(local_model: str) -> None:
    chosen = policy(local_model, "json_schema", thought_characters=60)
    episode = run_episode(StackSpec.environment("toy24", task="easy-0000"), chosen, limits=LIMITS)
    assert_valid(episode)
    named = [step for step in episode.steps if step.action]
    assert named
    assert not [step.refused for step in named if step.refused]


@pytest.mark.parametrize("format_name", ["text", "think_action"])
def test_plain_text_on_toy24_is_valid_however_badly_it_is_played(local_model: str, format_name: FormatName) -> None:
    stack = StackSpec.environment("toy24", task="easy-0000")
    assert_valid(run_episode(stack, policy(local_model, format_name), limits=LIMITS))


def test_text_on_the_household_game_is_valid(local_model: str) -> None:
    assert_valid(run_episode(household(), policy(local_model, "text"), limits=LIMITS))


def test_a_worker_process_plays_it_too(local_model: str) -> None:
    stack = StackSpec.environment("toy24", task="easy-0000")
    chosen = policy(local_model, "json_schema", thought_characters=40)
    jobs = [
        RolloutJob(
            task="easy-0000", stack=stack, policy=chosen, env_seed=0, policy_seed=seed, index=seed, limits=LIMITS
        )
        for seed in range(2)
    ]
    with make_engine("pool", workers=1) as engine:
        episodes = [episode for _, episode in engine.run(jobs)]
    assert len(episodes) == len(jobs)
    for episode in episodes:
        assert_valid(episode)
