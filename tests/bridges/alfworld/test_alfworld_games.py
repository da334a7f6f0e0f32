from __future__ import annotations

import os
from pathlib import Path

import pytest

from envharness.bridges.alfworld import Alfworld
from envharness.bridges.alfworld.games import GameLibrary
from envharness.core.errors import MissingDataError, SpecError, TaskError
from envharness.core.spec import make


def _put_game(folder: Path, task: str) -> None:
    (folder / task).mkdir(parents=True)
    (folder / task / "game.tw-pddl").write_text("{}")


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    root = tmp_path / "data"
    for task in (
        "valid_seen/b/t1",
        "train/b/t1",
        "train/a/t2",
        "train/a/t1",
        "train/pick-movable/t1",
        "train/XSliced/t",
    ):
        _put_game(root, f"json_2.1.1/{task}")
    return root


def test_ids_are_sorted_and_leave_out_what_the_benchmark_leaves_out(folder: Path) -> None:
    library = GameLibrary(folder)
    assert library.task_ids("train") == [f"json_2.1.1/train/{task}" for task in ("a/t1", "a/t2", "b/t1")]
    everything = library.task_ids()
    assert everything == sorted(everything)
    assert "json_2.1.1/valid_seen/b/t1" in everything
    assert "builtin/mug-to-desk" in everything


def test_index_is_exact_and_the_file_name_may_be_written(folder: Path) -> None:
    data = str(folder)
    assert Alfworld(split="train", index=2, data=data).task_id == "json_2.1.1/train/b/t1"
    assert Alfworld(task="json_2.1.1/train/a/t2/game.tw-pddl", data=data).task_id == "json_2.1.1/train/a/t2"
    assert Alfworld(split="train", data=data).list_tasks() == GameLibrary(folder).task_ids("train")
    with pytest.raises(SpecError, match="index 3 is past the 3 games"):
        Alfworld(split="train", index=3, data=data)


def test_an_unknown_task_is_an_error_and_never_another_game(folder: Path) -> None:
    with pytest.raises(TaskError, match=r"no task 'json_2.1.1/train/a/t9'.*did you mean 'json_2.1.1/train/a/t"):
        Alfworld(task="json_2.1.1/train/a/t9", data=str(folder))
    for task in (
        "json_2.1.1/train/a",
        "json_2.1.1/train",
        "",
        "builtin",
        "builtin/",
        "builtin/mug",
        "builtin/../state",
    ):
        with pytest.raises(TaskError):
            Alfworld(task=task, data=str(folder))
    with pytest.raises(TaskError, match=r"no split 'test' .*train, valid_seen, builtin"):
        Alfworld(split="test", data=str(folder))


def test_a_path_out_of_the_folder_is_refused(folder: Path, tmp_path: Path) -> None:
    _put_game(tmp_path, "elsewhere/t1")
    (folder / "json_2.1.1" / "train" / "linked").symlink_to(tmp_path / "elsewhere")
    for task in ("../elsewhere/t1", str(tmp_path / "elsewhere" / "t1"), "json_2.1.1/train/linked/t1"):
        with pytest.raises(TaskError, match="leads out of the data folder"):
            Alfworld(task=task, data=str(folder))


def test_missing_data_says_how_to_get_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("ALFWORLD_DATA", raising=False)
    with pytest.raises(MissingDataError, match=r"set ALFWORLD_DATA or the option `data`.*alfworld-download"):
        Alfworld(split="train")
    with pytest.raises(MissingDataError, match="does not exist"):
        Alfworld(split="train", data=str(tmp_path / "nowhere"))
    monkeypatch.setenv("ALFWORLD_DATA", str(tmp_path / "nowhere"))
    with pytest.raises(MissingDataError, match="nowhere does not exist"):
        Alfworld(task="json_2.1.1/train/a/t1")


def test_the_variable_names_the_folder(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("ALFWORLD_DATA", str(folder))
    assert Alfworld(split="valid_seen", index=0).task_id == "json_2.1.1/valid_seen/b/t1"
    assert os.environ["ALFWORLD_DATA"] == str(folder)


def test_without_a_folder_the_built_in_games_are_there(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("ALFWORLD_DATA", raising=False)
    env = make("alfworld")
    assert env.list_tasks() == ["builtin/clean-cup-to-shelf", "builtin/mug-to-desk"]
    assert env.task_id == "builtin/clean-cup-to-shelf"


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"task": "builtin/mug-to-desk", "index": 0}, "both name a game"),
        ({"index": 0}, "give split too"),
        ({"max_steps": 0}, "max_steps"),
        ({"repetition_guard": {"repeats": 4, "window": 3}}, "window 3 is too small"),
        ({"tolernat": True}, "tolernat"),
    ],
)
def test_a_wrong_option_is_named(options: dict[str, object], message: str) -> None:
    with pytest.raises(SpecError, match=message):
        make("alfworld", **options)


def test_a_file_that_is_no_game_is_an_error_at_reset(folder: Path, alfworld_engine: None) -> None:
    path = folder / "json_2.1.1" / "train" / "a" / "t1" / "game.tw-pddl"
    for text, message in (("{}", "not a game that TextWorld can load"), ("{", "not JSON"), ("[]", "not a JSON object")):
        path.write_text(text)
        with Alfworld(task="json_2.1.1/train/a/t1", data=str(folder)) as env, pytest.raises(TaskError, match=message):
            env.reset()
