from __future__ import annotations

import pytest
from pydantic import ValidationError

from envharness.core.errors import ConfigError
from envharness.rigger.config import RigConfig, TaskSelection
from rigger.build import config

TASKS = [f"{level}-{number}" for level in ("easy", "hard") for number in range(10)]


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"rollout": 5}, "rollout"),
        ({"band": (0.6, 0.4)}, "band"),
        ({"band": (-0.1, 0.4)}, "band"),
        ({"tasks": []}, "name at least one"),
        ({"tasks": ["a", "b", "a"]}, "'a' is named twice"),
        ({"rollouts": 0}, "rollouts"),
        (
            {"environment": {"id": "rigger.halls:Halls", "options": {"task": "hall-1"}}},
            "name tasks under the key 'tasks'",
        ),
        ({"designer": {"id": "identity"}, "null": False}, "null"),
        ({"limits": {"steps": 3}}, "steps"),
        ({"acceptance": {"rule": "certain"}}, "acceptance.rule"),
        ({"acceptance": {"threshold": 0.95}}, "threshold means nothing under the rule 'empirical'"),
        ({"acceptance": {"rule": "posterior", "hopeless": 0.1}}, "hopeless means nothing under the rule 'posterior'"),
        ({"acceptance": {"rule": "dose", "threshold": 0.1}}, "drop 0.15 must be below threshold 0.1"),
        ({"acceptance": {"rule": "dose", "cap": 4}}, "acceptance.cap: 4 rollouts are less than the baseline takes"),
    ],
)
def test_a_wrong_configuration_names_the_key(change: dict[str, object], message: str) -> None:
    base: dict[str, object] = {
        "environment": {"id": "rigger.halls:Halls"},
        "tasks": ["hall-0"],
        "policy": {"id": "random"},
    }
    with pytest.raises(ValidationError, match=message):
        RigConfig.model_validate(base | change)


def test_tasks_by_name_keep_their_order_and_must_exist() -> None:
    assert config(tasks=["hard-1", "easy-3"]).choose_tasks(TASKS) == ["hard-1", "easy-3"]
    with pytest.raises(ConfigError, match=r"no task 'hard-10'.*20 tasks, the first is 'easy-0'"):
        config(tasks=["hard-1", "hard-10"]).choose_tasks(TASKS)


def test_tasks_by_selection() -> None:
    def chosen(seed: int = 0, **selection: object) -> list[str]:
        return config(tasks=TaskSelection.model_validate(selection), seed=seed).choose_tasks(TASKS)

    assert chosen(count=2) == ["easy-0", "easy-1"]
    assert chosen(count=2, match="hard-*") == ["hard-0", "hard-1"]
    assert chosen(count=4, order="spread") == ["easy-0", "easy-5", "hard-0", "hard-5"]
    assert chosen(count=5, order="sample") == chosen(count=5, order="sample") != chosen(1, count=5, order="sample")
    with pytest.raises(
        ConfigError,
        match=r"asked for 11 that match 'easy-\*', but of the \d+ tasks that rigger\.halls:Halls lists .* 10 do",
    ):
        chosen(count=11, match="easy-*")


def test_a_configuration_survives_json() -> None:
    made = config(tasks=TaskSelection(count=3), remeasure=2)
    assert RigConfig.model_validate(made.model_dump(mode="json")) == made
