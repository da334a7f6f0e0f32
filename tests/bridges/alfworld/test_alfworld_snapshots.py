"""ALFWorld from forked snapshots: the same episodes, with one load for all of them."""

from __future__ import annotations

from pathlib import Path
from socket import socket

import pytest

from envharness.bridges.alfworld.games import GameLibrary
from envharness.core.canonical import canonical_json
from envharness.core.policy import PolicySpec
from envharness.core.spec import StackSpec
from envharness.core.trace import Episode
from envharness.rollouts.engine import make_engine
from envharness.rollouts.job import Limits, RolloutJob
from envharness.rollouts.snapshots.snapshots import SnapshotMode
from envharness.rollouts.snapshots.staging import StagingProcess
from envharness.store.content import episode_content

pytestmark = pytest.mark.slow

SHOUT = """
class _Contract(Contract):
    def filter_action(self, action, env_state):
        if action.kwargs.get("command") == "look":
            return Blocked(reason="Looking around does not help.")
        return action
    def filter_observation(self, observation, env_state):
        return Observation(text=observation.text + "\\nHint: it is near.", data=observation.data)
"""


def play(stack: StackSpec, mode: SnapshotMode) -> list[Episode]:
    jobs = [
        RolloutJob(
            task="a game",
            stack=stack,
            policy=PolicySpec(id=policy),
            env_seed=0,
            policy_seed=index,
            index=index,
            limits=Limits(max_steps=12),
        )
        for index, policy in enumerate(["household", "random", "random"])
    ]
    with make_engine("inline", retries=0, snapshots=mode) as engine:
        return [episode for _, episode in engine.run(jobs)]


def contents(episodes: list[Episode]) -> list[str]:
    return [canonical_json(episode_content(episode.model_dump(mode="json"))) for episode in episodes]


def act(command: str) -> dict[str, object]:
    return {"name": "act", "kwargs": {"command": command}}


MUG = StackSpec.environment("alfworld", task="builtin/mug-to-desk")
THERE = [act("go to countertop 1"), act("take mug 1 from countertop 1")]
STACKS = {
    "bare": MUG,
    "staged": MUG.wrap("stage", actions=THERE),
    "a contract on a stage": MUG.wrap("stage", actions=THERE).wrap("contract", source=SHOUT),
    "a stage on a contract": MUG.wrap("contract", source=SHOUT).wrap("stage", actions=THERE),
    "a stage that is refused": MUG.wrap("stage", actions=[act("go to the moon 1")]),
}


@pytest.mark.parametrize("name", STACKS)
def test_episodes_are_the_same_to_the_byte(name: str, alfworld_engine: None, monkeypatch: pytest.MonkeyPatch) -> None:
    forks: list[int] = []
    fork = StagingProcess.fork

    def noted(process: StagingProcess) -> tuple[socket, int]:
        channel, child = fork(process)
        forks.append(child)
        return channel, child

    monkeypatch.setattr(StagingProcess, "fork", noted)
    expected = play(STACKS[name], "never")
    assert contents(play(STACKS[name], "always")) == contents(expected)
    refused = name.endswith("refused")
    assert [episode.valid for episode in expected] == [not refused] * 3
    assert len(forks) == (0 if refused else 3)


def test_a_real_game_is_the_same_to_the_byte(games_folder: Path) -> None:
    library = GameLibrary(games_folder)
    game = library.find(library.task_ids("train")[120])
    stack = StackSpec.environment("alfworld", task=game.task_id, data=str(games_folder))
    staged = stack.wrap("stage", actions=[act(command) for command in (game.walkthrough() or [])[:-1]])
    expected = play(staged, "never")
    assert all(episode.valid for episode in expected)
    assert contents(play(staged, "always")) == contents(expected)
