"""The engine is quick because it keeps what cannot change; that must never show in what it says."""

from __future__ import annotations

import importlib
import os
import random
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from envharness.bridges.alfworld import engine as engines
from envharness.bridges.alfworld.engine import Frame, GameEngine
from envharness.bridges.alfworld.games import Game, GameLibrary

pytestmark = pytest.mark.slow

needs_plain_textworld = pytest.mark.skipif(
    sys.version_info >= (3, 13), reason="TextWorld 1.7 by itself does not run on Python 3.13: it writes to locals()"
)
REAL_GAMES = (3, 75, 120, 170, 230, 290)
"""One training game of each type."""


def _plain_engine(game: Game) -> Any:
    """TextWorld's own engine as alfworld uses it, with nothing of ours."""
    env: Any = importlib.import_module("textworld.envs.pddl").PddlEnv()
    env.load(game.content())
    demangler = importlib.import_module("alfworld.agents.utils.misc").Demangler(game_infos=env._entity_infos)
    for info in env._entity_infos.values():
        info.name = demangler.demangle_alfred_name(info.id)
    return env


def _plain_frames(game: Game, commands: list[str]) -> Iterator[tuple[str, list[str], bool]]:
    env = _plain_engine(game)
    state = env.reset()
    yield state.feedback.strip(), state["admissible_commands"], state["won"]
    for command in commands:
        state, _, _ = env.step(command)
        yield state.feedback.strip(), state["admissible_commands"], state["won"]


def _play(engine: GameEngine, commands: list[str]) -> list[Frame]:
    return [engine.restart(), *(engine.step(command) for command in commands)]


def _random_commands(engine: GameEngine, count: int, seed: int) -> list[str]:
    """Wander, preferring what changes the world; also say things that are not understood."""
    rng = random.Random(seed)
    frame = engine.restart()
    commands: list[str] = []
    for _ in range(count):
        acting = [command for command in frame.admissible_commands if not command.startswith(("go ", "help"))]
        commands.append(rng.choice([rng.choice(frame.admissible_commands), rng.choice(acting), "go to nowhere 1"]))
        frame = engine.step(commands[-1])
    return commands


def _assert_same_transcript(game: Game, steps: int) -> None:
    engine = GameEngine(game)
    commands = [*_random_commands(engine, steps, seed=5), *(game.walkthrough() or [])]
    ours = [(frame.feedback, list(frame.admissible_commands), frame.won) for frame in _play(engine, commands)]
    assert ours == list(_plain_frames(game, commands))


@needs_plain_textworld
@pytest.mark.parametrize("task", ["builtin/mug-to-desk", "builtin/clean-cup-to-shelf"])
def test_the_transcript_is_that_of_textworld_itself(task: str, alfworld_engine: None) -> None:
    _assert_same_transcript(GameLibrary(None).find(task), steps=40)


@pytest.mark.slow
@needs_plain_textworld
@pytest.mark.parametrize("index", REAL_GAMES)
def test_the_transcript_of_a_real_game_is_that_of_textworld_itself(index: int, games_folder: Path) -> None:
    library = GameLibrary(games_folder)
    _assert_same_transcript(library.find(library.task_ids("train")[index]), steps=15)


@pytest.mark.slow
@pytest.mark.parametrize("index", REAL_GAMES)
def test_the_walkthrough_of_a_real_game_wins(index: int, games_folder: Path) -> None:
    library = GameLibrary(games_folder)
    game = library.find(library.task_ids("train")[index])
    frames = _play(GameEngine(game), game.walkthrough() or [])
    assert all(frame.effective for frame in frames)
    assert [frame.won for frame in frames] == [False] * (len(frames) - 1) + [True]


def test_an_engine_that_held_another_game_says_the_same(alfworld_engine: None) -> None:
    first, second = (GameLibrary(None).find(task) for task in GameLibrary(None).task_ids("builtin"))
    engine = GameEngine(first)
    commands = _random_commands(engine, 20, seed=1)
    expected = _play(engine, commands)
    engine.load(second)
    _play(engine, _random_commands(engine, 20, seed=2))
    engine.load(first)
    assert _play(engine, commands) == expected


def test_two_games_at_once_do_not_disturb_each_other(alfworld_engine: None) -> None:
    first, second = (GameEngine(GameLibrary(None).find(task)) for task in GameLibrary(None).task_ids("builtin"))
    commands = {engine: _random_commands(engine, 15, seed=3) for engine in (first, second)}
    alone = {engine: _play(engine, commands[engine]) for engine in (first, second)}
    together = {engine: [engine.restart()] for engine in (first, second)}
    for left, right in zip(commands[first], commands[second], strict=True):
        together[first].append(first.step(left))
        together[second].append(second.step(right))
    assert together == alone


def test_an_engine_is_used_again_and_no_more_are_kept_than_said(
    alfworld_engine: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(engines, "IDLE_ENGINES", 1)
    monkeypatch.setattr(engines, "_engines", engines._Engines())
    first, second = (GameLibrary(None).find(task) for task in GameLibrary(None).task_ids("builtin"))
    engine = engines.lease(first)
    engines.give_back(engine)
    assert engines.lease(first) is engine
    engines.give_back(engine)
    again = engines.lease(second)
    assert again is engine
    assert "put a mug in desk" in again.restart().feedback


_TRANSCRIPT = """
import hashlib, random, sys
from envharness.bridges.alfworld import Alfworld
from envharness.core.types import Action
env = Alfworld(task=sys.argv[1])
shown, rng, digest = env.reset().observation, random.Random(0), hashlib.sha256()
for _ in range(30):
    command = rng.choice(shown.data["admissible_commands"])
    shown = env.step(Action(name="act", kwargs={"command": command})).observation
    digest.update(shown.model_dump_json().encode() + repr(env.get_env_state()).encode())
print(digest.hexdigest())
"""


def test_two_processes_with_other_hash_seeds_say_the_same(alfworld_engine: None) -> None:
    digests = {
        subprocess.run(
            [sys.executable, "-c", _TRANSCRIPT, "builtin/clean-cup-to-shelf"],
            env={**os.environ, "PYTHONHASHSEED": seed},
            capture_output=True,
            check=True,
            text=True,
        ).stdout
        for seed in ("1", "2")
    }
    assert len(digests) == 1


def test_nothing_heavy_is_imported_before_reset() -> None:
    code = (
        "import sys; from envharness.core.spec import make; env = make('alfworld'); env.reference_solution(); "
        "env.close(); print(sorted({'textworld', 'alfworld', 'numpy', 'fast_downward'} & sys.modules.keys()))"
    )
    run = subprocess.run([sys.executable, "-c", code], capture_output=True, check=True, text=True)
    assert run.stdout.strip() == "[]"
