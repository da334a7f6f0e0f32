"""The goal as the house shows it, beside the engine's own word on it."""

from __future__ import annotations

import random
from pathlib import Path
from typing import Any, cast

import pytest

from envharness.bridges.alfworld import Alfworld
from envharness.bridges.alfworld.goal import goal_reached
from envharness.core.types import Action, JsonDict


def house(goal: str, **changes: Any) -> JsonDict:
    state: JsonDict = {"goal": goal, "holding": None, "visible": [], "contents": {}, "conditions": {}}
    return {**state, **changes}


@pytest.mark.parametrize("task", ["builtin/mug-to-desk", "builtin/clean-cup-to-shelf"])
def test_it_is_what_the_engine_says_at_every_step(task: str, alfworld_engine: None) -> None:
    with Alfworld(task=task) as env:
        env.reset()
        for action in env.reference_solution() or []:
            assert env.goal_reached(env.get_env_state()) is False
            env.step(action)
        assert env.goal_reached(env.get_env_state()) is True
        assert env.goal_reached({**env.get_env_state(), "won": False}) is True


@pytest.mark.slow
def test_it_is_what_the_engine_says_in_real_games_of_all_types(games_folder: Path) -> None:
    library = Alfworld(data=str(games_folder))
    seen = 0
    types = sorted({task.split("/")[2].split("-")[0] for task in library.list_tasks() if "json_" in task})
    for kind in types:
        task = next(task for task in library.list_tasks() if f"/{kind}-" in task)
        with Alfworld(task=task, data=str(games_folder)) as env:
            solution = env.reference_solution() or []
            rng = random.Random(kind)
            for actions in (solution, [None] * 15):
                shown = env.reset().observation
                for planned in actions:
                    commands = cast("list[str]", shown.data["admissible_commands"])
                    response = env.step(planned or Action(name="act", kwargs={"command": rng.choice(commands)}))
                    shown = response.observation
                    state = env.get_env_state()
                    assert env.goal_reached(state) is state["won"], (task, state["goal"])
                    seen += response.terminated
                    if response.terminated:
                        break
    assert len(types) == 6
    assert seen >= len(types)


def test_two_are_wanted_where_the_goal_says_two() -> None:
    one = house("put two mug in desk", contents={"desk 1": ["mug 1"], "desk 2": []})
    assert goal_reached(one) is False
    assert goal_reached({**one, "contents": {"desk 1": ["mug 1"], "desk 2": ["mug 2"]}}) is True
    assert goal_reached({**one, "contents": {"desk 1": ["mug 1"], "desk 2": ["mug 1"]}}) is False


@pytest.mark.parametrize(
    ("goal", "condition"),
    [
        ("clean some mug and put it in shelf", "clean"),
        ("put a hot mug in shelf", "hot"),
        ("cool some mug and put it in shelf", "cool"),
    ],
)
def test_what_is_to_be_done_to_a_thing_is_done_to_the_very_thing(goal: str, condition: str) -> None:
    there = house(goal, contents={"shelf 1": ["mug 1"], "desk 1": ["mug 2"]})
    assert goal_reached({**there, "conditions": {"mug 2": [condition]}}) is False
    assert goal_reached({**there, "conditions": {"mug 1": [condition]}}) is True


def test_a_lamp_must_be_lit_where_one_stands_and_the_thing_in_hand() -> None:
    lit = house(
        "look at book under the desklamp",
        holding="book 1",
        visible=["desklamp 1"],
        conditions={"desklamp 1": ["toggled"]},
    )
    assert goal_reached(lit) is True
    changes: list[JsonDict] = [{"holding": None}, {"holding": "mug 1"}, {"visible": []}, {"conditions": {}}]
    for change in changes:
        assert goal_reached({**lit, **change}) is False


def test_what_is_not_understood_is_not_judged() -> None:
    assert goal_reached(house("make everybody happy")) is None
    assert goal_reached({"goal": "put a mug in desk"}) is None
