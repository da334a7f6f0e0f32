"""Walks every ALFWorld game at hand with our engine and with TextWorld's own, and compares every word.

Real games where ALFWORLD_DATA says where they are, else the built-in ones. The plain engine takes seconds a game, so
what was compared is written down in `.cache/alfworld-transcripts.jsonl` (or the file TRANSCRIPTS names), and a second
run goes on where the first was stopped; a game is walked again once the bridge's code or the packages below it change.
"""

from __future__ import annotations

import hashlib
import importlib
import json
import multiprocessing
import os
import random
import sys
from collections.abc import Iterator
from functools import partial
from importlib.metadata import version
from pathlib import Path
from time import process_time
from typing import Any

from benchmarks import Figure, at_least
from envharness.bridges.alfworld.engine import Frame, GameEngine
from envharness.bridges.alfworld.games import Game, GameLibrary

_STEPS = 12
"""Of the random walk, whose first steps prefer what changes the world."""
_WALKERS = 2
_GAMES_PER_PROCESS = 25
"""A fresh engine leaks 4 MB."""

Words = tuple[str, list[str], bool]


def measure() -> dict[str, Figure]:
    """How many games there are, how many gave the same transcript, and what a step cost on either side."""
    library = GameLibrary(None)
    found = {task: library.find(task) for task in library.task_ids()}
    code = _code_digest()
    done = {line["digest"]: line for line in _lines() if line["code"] == code}
    left = [game for game in found.values() if game.digest not in done]
    if left and sys.version_info < (3, 13):  # TextWorld 1.7 by itself does not run there
        done |= _walk_all(left, code)
    walked = [done[game.digest] for game in found.values() if game.digest in done]
    same = sum(line["same"] for line in walked)
    plain, ours = (sum(line[side] for line in walked) for side in ("plain_step_s", "our_step_s"))
    for line in walked:
        if not line["same"]:
            print(f"  differs: {line['task']}")
    return {
        "alfworld_games": Figure(len(found), "games"),
        "alfworld_games_with_the_same_transcript": at_least(same, "games", len(found)),
        "alfworld_steps_compared": Figure(sum(line["steps"] for line in walked), "steps"),
        "alfworld_short_walks_times_the_plain_steps": Figure(plain / max(ours, 1e-9), "x"),
    }


def _walk_all(games: list[Game], code: str) -> dict[str, dict[str, Any]]:
    path, done = _path(), dict[str, dict[str, Any]]()
    path.parent.mkdir(parents=True, exist_ok=True)
    spawn = multiprocessing.get_context("spawn")
    with (
        path.open("a", encoding="utf-8") as file,
        spawn.Pool(_WALKERS, maxtasksperchild=_GAMES_PER_PROCESS) as walkers,
    ):
        for line in walkers.imap_unordered(partial(_walk, code=code), games):
            done[line["digest"]] = line
            file.write("\n" + json.dumps(line))  # the line before may be torn
            file.flush()
            print(f"  {len(done)} of {len(games)}", end="\r", file=sys.stderr)
    return done


def _walk(game: Game, code: str) -> dict[str, Any]:
    """Walk one game on both engines, and on ours a second time after a restart."""
    engine = GameEngine(game)
    commands, ours = _wander(engine, random.Random(game.digest))
    again = [_words(engine.restart())]
    began = process_time()
    again += [_words(engine.step(command)) for command in commands]
    our_seconds = process_time() - began
    plain, plain_seconds = _plain(game, commands)
    return {
        "task": game.task_id,
        "digest": game.digest,
        "code": code,
        "steps": len(commands),
        "same": ours == plain == again,
        "our_step_s": our_seconds / len(commands),
        "plain_step_s": plain_seconds / len(commands),
    }


def _wander(engine: GameEngine, rng: random.Random) -> tuple[list[str], list[Words]]:
    frame = engine.restart()
    commands, words = list[str](), [_words(frame)]
    for _ in range(_STEPS):
        acting = [command for command in frame.admissible_commands if not command.startswith(("go ", "help"))]
        commands.append(rng.choice([rng.choice(frame.admissible_commands), rng.choice(acting), "go to nowhere 1"]))
        frame = engine.step(commands[-1])
        words.append(_words(frame))
    return commands, words


def _words(frame: Frame) -> Words:
    return frame.feedback, list(frame.admissible_commands), frame.won


def _plain(game: Game, commands: list[str]) -> tuple[list[Words], float]:
    """Play `commands` on TextWorld's engine with nothing of ours; also the CPU seconds of the steps."""
    env: Any = importlib.import_module("textworld.envs.pddl").PddlEnv()
    env.load(game.content())
    names = importlib.import_module("alfworld.agents.utils.misc").Demangler(game_infos=env._entity_infos)  # noqa: SLF001
    for info in env._entity_infos.values():  # noqa: SLF001
        info.name = names.demangle_alfred_name(info.id)
    words = [_state_words(env.reset())]
    began = process_time()
    for command in commands:
        state, _, _ = env.step(command)
        words.append(_state_words(state))
    return words, process_time() - began


def _state_words(state: Any) -> Words:
    return state.feedback.strip(), state["admissible_commands"], state["won"]


def _path() -> Path:
    return Path(os.environ.get("TRANSCRIPTS", ".cache/alfworld-transcripts.jsonl"))


def _lines() -> Iterator[dict[str, Any]]:
    if _path().exists():
        for line in _path().read_text(encoding="utf-8").splitlines():
            if line.endswith("}"):  # not one that a kill tore
                yield json.loads(line)


def _code_digest() -> str:
    """Name what a transcript depends on, beside the game."""
    modules = [importlib.import_module(f"envharness.bridges.alfworld.{name}") for name in ("engine", "grammar")]
    texts = [Path(str(module.__file__)).read_bytes() for module in modules]
    versions = f"{version('textworld')} {version('alfworld')} {_STEPS}".encode()
    return hashlib.sha256(b"\0".join([*texts, versions])).hexdigest()[:16]
