"""Find ALFWorld games: in the folder the user vouches for, and the tiny ones that ship here.

A task's id is its game's folder relative to the data folder, with forward slashes and without the file name, such as
`json_2.1.1/train/pick_and_place_simple-Mug-None-Desk-308/trial_T20190908_125200_737896`; or `builtin/NAME`.
"""

from __future__ import annotations

import hashlib
import importlib
import os
from dataclasses import dataclass
from difflib import get_close_matches
from importlib.resources import files
from pathlib import Path, PurePosixPath
from typing import cast

import orjson
from pydantic import BaseModel, ConfigDict

from envharness.core.errors import MissingDataError, TaskError
from envharness.core.types import JsonDict

GAME_FILE = "game.tw-pddl"
BUILT_IN = "builtin"
_PACKAGE = __name__.rpartition(".")[0]
_LEFT_OUT = ("movable", "Sliced")
"""Games that ALFWorld itself leaves out, by what their path contains."""


class _BuiltInGame(BaseModel):
    """A game of our own: domain and grammar are those of the installed `alfworld` package."""

    model_config = ConfigDict(extra="forbid")

    goal: str
    walkthrough: list[str]
    problem: list[str]
    """The PDDL problem, line by line."""


@dataclass(frozen=True)
class Game:
    """One game, found but not yet loaded into an engine."""

    task_id: str
    data: bytes
    digest: str
    """Hash of the file: two games of one digest are the same game."""

    def content(self) -> JsonDict:
        """Return the game as TextWorld reads it. Raises TaskError where the file is no game."""
        if self.task_id.startswith(f"{BUILT_IN}/"):
            return _complete(_BuiltInGame.model_validate_json(self.data))
        try:
            content = orjson.loads(self.data)
        except orjson.JSONDecodeError as error:
            raise TaskError(f"alfworld: {self.task_id}/{GAME_FILE} is not JSON: {error}") from error
        if not isinstance(content, dict):
            raise TaskError(f"alfworld: {self.task_id}/{GAME_FILE} is not a JSON object")
        return cast("JsonDict", content)

    def walkthrough(self) -> list[str] | None:
        """Return the commands that win the game, or None where the file has none."""
        commands = orjson.loads(self.data).get("walkthrough")
        return [str(command) for command in cast("list[object]", commands)] if isinstance(commands, list) else None


class GameLibrary:
    """The games below one data folder, and the built-in ones."""

    def __init__(self, folder: Path | None) -> None:
        """Look in `folder`; None: in the folder that ALFWORLD_DATA names, if it is set."""
        named = folder if folder is not None else os.environ.get("ALFWORLD_DATA")
        self._folder = Path(named).expanduser() if named else None

    def task_ids(self, split: str | None = None) -> list[str]:
        """Return all ids in sorted order; of one split (`train`, `valid_seen`, `valid_unseen`) where given.

        Raises MissingDataError where the split needs a data folder that is not there, TaskError where the folder has
        no such split.
        """
        if split == BUILT_IN or (split is None and self._folder is None):
            return _built_in_ids()
        folder = self._vouched_folder()
        pattern = f"*/{split}/**/{GAME_FILE}" if split else f"**/{GAME_FILE}"
        found = [path.parent.relative_to(folder).as_posix() for path in folder.glob(pattern)]
        ids = sorted(task for task in found if not any(word in task for word in _LEFT_OUT))
        if split and not ids:
            known = sorted({PurePosixPath(task).parts[1] for task in self.task_ids() if task.count("/") > 1})
            raise TaskError(f"alfworld: no split {split!r} in {folder} (found: {', '.join([*known, BUILT_IN])})")
        return ids if split else [*_built_in_ids(), *ids]

    def find(self, task: str) -> Game:
        """Return the game of a task. Raises TaskError where there is none, MissingDataError without a data folder."""
        task = task.removesuffix(f"/{GAME_FILE}").rstrip("/")
        if task.startswith(f"{BUILT_IN}/"):
            return _find_built_in(task)
        folder = self._vouched_folder()
        path = folder / task / GAME_FILE
        # A game file is code, so nothing outside the folder is opened, whatever dots or links lead there.
        if not path.resolve().is_relative_to(folder.resolve()):
            raise TaskError(f"alfworld: task {task!r} leads out of the data folder {folder}")
        if not task or not path.is_file():
            close = get_close_matches(task, self.task_ids(), n=1, cutoff=0.4)
            hint = f"; did you mean {close[0]!r}?" if close else ""
            raise TaskError(f"alfworld: no task {task!r} in {folder}{hint}")
        data = path.read_bytes()
        return Game(path.parent.relative_to(folder).as_posix(), data, hashlib.sha256(data).hexdigest())

    def _vouched_folder(self) -> Path:
        if self._folder is None:
            raise MissingDataError(
                "alfworld: no data folder; set ALFWORLD_DATA or the option `data` to the folder that holds json_2.1.1 "
                f"({_HOW_TO_GET})"
            )
        if not self._folder.is_dir():
            raise MissingDataError(f"alfworld: the data folder {self._folder} does not exist ({_HOW_TO_GET})")
        return self._folder


_HOW_TO_GET = (
    "to get the games: pip install 'envharness[alfworld]' and run `alfworld-download`; without them, the tasks "
    "builtin/... can be played"
)


def _built_in_ids() -> list[str]:
    entries = files(_PACKAGE).joinpath("games").iterdir()
    return sorted(f"{BUILT_IN}/{entry.name[:-5]}" for entry in entries if entry.name.endswith(".json"))


def _find_built_in(task: str) -> Game:
    if task not in _built_in_ids():
        raise TaskError(f"alfworld: no task {task!r} (built in are {', '.join(_built_in_ids())})")
    data = files(_PACKAGE).joinpath("games", f"{task.split('/')[1]}.json").read_bytes()
    return Game(task, data, hashlib.sha256(data).hexdigest())


def _complete(game: _BuiltInGame) -> JsonDict:
    """Add ALFWorld's domain and grammar, which come with its package."""
    try:
        data = files(importlib.import_module("alfworld")).joinpath("data")
    except ImportError as error:
        raise MissingDataError(
            "alfworld: the package `alfworld` is not installed; run `scripts/install-alfworld`, "
            "or `pip install 'envharness[alfworld]'`"
        ) from error
    grammar = data.joinpath("alfred.twl2").read_text(encoding="utf-8")
    return {
        "pddl_domain": data.joinpath("alfred.pddl").read_text(encoding="utf-8"),
        "grammar": grammar.replace("UNKNOWN GOAL", game.goal),
        "pddl_problem": "\n".join(game.problem),
        "walkthrough": list(game.walkthrough),
        "solvable": True,
    }
