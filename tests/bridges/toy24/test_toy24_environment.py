from __future__ import annotations

import copy
import random
from typing import cast

import orjson
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from envharness.bridges.toy24 import Toy24
from envharness.core.errors import ConfigError, LifecycleError, SpecError, TaskError
from envharness.core.spec import StackSpec, make
from envharness.core.state_schema import state_violations
from envharness.core.types import Action, EnvResponse


def combine(env: Toy24, left: str, operation: str, right: str) -> EnvResponse:
    return env.step(Action(name="combine", kwargs={"left": left, "operation": operation, "right": right}))


def numbers_of(env: Toy24) -> list[str]:
    return sorted(cast("list[str]", env.get_env_state()["numbers"]))


def started(numbers: list[int], max_steps: int = 12) -> Toy24:
    env = Toy24(numbers=numbers, max_steps=max_steps)
    env.reset(0)
    return env


def test_the_reference_solution_wins_every_level_and_ends_by_itself() -> None:
    for task in ("easy-0003", "medium-0003", "hard-0003"):
        env = Toy24(task)
        env.reset(5)
        solution = env.reference_solution()
        assert solution is not None
        responses = [env.step(action) for action in solution]
        assert [response.terminated for response in responses] == [False, False, True]
        assert [response.reward for response in responses] == [0.0, 0.0, 1.0]
        assert env.evaluate().success
        assert env.evaluate().score == 1.0


def test_fractions_are_exact() -> None:
    env = started([8, 3, 8, 3])
    combine(env, "8", "/", "3")
    assert "8/3" in env.observe().text
    combine(env, "3", "-", "8/3")
    assert combine(env, "8", "/", "1/3").terminated
    assert env.evaluate().success


def test_one_number_that_is_not_the_target_is_no_win_and_can_be_taken_back() -> None:
    env = started([4, 6])
    response = combine(env, "4", "+", "6")
    assert not response.terminated
    assert not env.evaluate().success
    env.step(Action(name="reset_numbers"))
    assert combine(env, "4", "*", "6").terminated
    assert env.evaluate().metrics == {"numbers_left": 1, "steps": 3, "resets": 1}


def test_the_target_among_other_numbers_is_no_win() -> None:
    env = started([4, 6, 1])
    combine(env, "4", "*", "6")
    assert env.step(Action(name="stop")).terminated
    assert not env.evaluate().success


def test_stopping_at_once_fails() -> None:
    env = started([4, 6])
    response = env.step(Action(name="stop"))
    assert (response.terminated, response.truncated, response.reward) == (True, False, 0.0)
    assert not env.evaluate().success


@pytest.mark.parametrize(
    ("left", "operation", "right", "why"),
    [
        ("7", "+", "4", "there is no '7' among"),
        ("4", "+", "4", "there is no '4' among"),
        ("four", "+", "6", "there is no 'four' among"),
        ("4", "+", "1/0", "there is no '1/0' among"),
    ],
)
def test_a_move_that_cannot_be_made_changes_nothing_but_the_step_count(
    left: str, operation: str, right: str, why: str
) -> None:
    env = started([4, 6])
    before = env.get_env_state()
    response = combine(env, left, operation, right)
    assert response.info == {"ineffective": True}
    assert why in response.observation.text
    assert env.get_env_state() == {**before, "steps": 1, "steps_left": 11}


def test_a_division_by_zero_changes_nothing() -> None:
    env = started([5, 5, 3])
    combine(env, "5", "-", "5")
    response = combine(env, "3", "/", "0")
    assert response.info["ineffective"] is True
    assert "division by zero" in response.observation.text
    assert numbers_of(env) == ["0", "3"]


def test_a_result_equal_to_the_other_number_keeps_the_right_one() -> None:
    env = started([2, 2, 7])
    combine(env, "2", "*", "2")
    assert numbers_of(env) == ["4", "7"]
    env = started([3, 1, 5])
    combine(env, "3", "*", "1")
    assert "Numbers left (2)" in env.observe().text


@pytest.mark.parametrize(
    "action",
    [
        Action(name="undo"),
        Action(name="combine", kwargs={"left": 4, "operation": "+", "right": "6"}),
        Action(name="combine", kwargs={"left": "4", "operation": "^", "right": "6"}),
        Action(name="combine", kwargs={"left": "4", "operation": "+"}),
        Action(name="stop", kwargs={"now": True}),
    ],
)
def test_a_call_that_no_tool_understands_is_refused_and_costs_nothing(action: Action) -> None:
    env = started([4, 6])
    before = env.save_state()
    response = env.step(action)
    assert response.info["refused"]
    assert str(response.info["refused"]) in response.observation.text
    assert env.save_state() == before


def test_steps_run_out_as_a_truncation() -> None:
    env = started([4, 6], max_steps=2)
    assert not env.step(Action(name="reset_numbers")).truncated
    response = env.step(Action(name="reset_numbers"))
    assert (response.terminated, response.truncated) == (False, True)
    with pytest.raises(LifecycleError, match="after the end"):
        env.step(Action(name="stop"))


def test_a_win_with_the_last_step_is_a_termination() -> None:
    response = combine(started([4, 6], max_steps=1), "4", "*", "6")
    assert (response.terminated, response.truncated) == (True, False)


def test_calls_out_of_order_are_lifecycle_errors() -> None:
    env = Toy24()
    with pytest.raises(LifecycleError, match="before reset"):
        env.step(Action(name="stop"))
    with pytest.raises(LifecycleError, match="before reset"):
        env.evaluate()
    env.close()
    env.close()
    with pytest.raises(LifecycleError, match="after close"):
        env.reset()


def test_the_seed_decides_the_order_and_nothing_else() -> None:
    env = Toy24("medium-0001")
    states: list[str] = []
    for seed in (1, 1, 2, 3, 4):
        env.reset(seed)
        states.append(orjson.dumps(env.get_env_state()).decode())
        assert sorted(cast("list[str]", env.get_env_state()["dealt"])) == sorted(map(str, env._numbers))
    assert states[0] == states[1]
    assert len(set(states)) == 4


def test_no_seed_is_a_fixed_default_and_the_global_generator_is_left_alone() -> None:
    before = random.getstate()
    env = Toy24()
    first = env.reset().observation
    assert env.reset().observation == first == env.reset(0).observation
    assert random.getstate() == before


def test_the_state_keeps_to_its_description_and_is_a_copy() -> None:
    env = started([8, 3, 8, 3])
    combine(env, "8", "/", "3")
    state = env.get_env_state()
    assert state_violations(env.env_state_schema(), state) == []
    untouched = copy.deepcopy(state)
    cast("list[str]", state["numbers"]).clear()
    assert env.get_env_state() == untouched


def test_observing_changes_nothing_and_repeats_what_was_shown() -> None:
    env = started([4, 6])
    shown = combine(env, "5", "+", "6").observation
    before = env.save_state()
    assert env.observe() == shown
    assert env.save_state() == before


def a_move(numbers: tuple[str, str], operation: str) -> Action:
    return Action(name="combine", kwargs={"left": numbers[0], "operation": operation, "right": numbers[1]})


written = st.sampled_from(["2", "3", "4", "6", "12", "1/2", "-1", "0", "24", "x"])
actions = st.one_of(
    st.builds(a_move, st.tuples(written, written), st.sampled_from(["+", "-", "*", "/"])),
    st.just(Action(name="reset_numbers")),
)


@settings(deadline=None)
@given(st.lists(actions, max_size=10), st.lists(actions, max_size=6), st.integers(0, 5))
def test_a_snapshot_goes_on_like_the_original(before: list[Action], after: list[Action], seed: int) -> None:
    env = make("toy24", numbers=[2, 3, 4, 6], max_steps=9)
    env.reset(seed)
    for action in before:
        if env.save_state()["phase"] == "running":
            env.step(action)
    saved = orjson.loads(orjson.dumps(env.save_state()))
    twin = Toy24.from_state(saved, numbers=[2, 3, 4, 6], max_steps=9)
    assert twin.evaluate() == env.evaluate()
    for action in after:
        if env.save_state()["phase"] != "running":
            with pytest.raises(LifecycleError):
                twin.step(action)
            break
        assert twin.step(action) == env.step(action)
        assert twin.get_env_state() == env.get_env_state()


def test_a_stack_with_a_snapshot_builds_into_the_middle_of_an_episode() -> None:
    env = started([4, 6, 1])
    combine(env, "6", "*", "1")
    node = {"kind": "environment", "id": "toy24", "options": {"numbers": [4, 6, 1]}, "state": env.save_state()}
    built = StackSpec.from_data({"schema_version": 2, "stack": node}).build()
    assert built.observe() == env.observe()


@pytest.mark.parametrize(
    "change", [{"phase": "paused"}, {"dealt": ["1", "2"]}, {"numbers": ["x"]}, {"numbers": []}, {"steps": -1}, {"a": 1}]
)
def test_a_foreign_snapshot_is_a_spec_error_naming_the_place(change: dict[str, object]) -> None:
    state = started([4, 6]).save_state()
    with pytest.raises(SpecError, match=r"^state\."):
        Toy24.from_state({**state, **change}, numbers=[4, 6])  # pyright: ignore[reportArgumentType]  malformed on purpose


@pytest.mark.parametrize(
    "options",
    [
        {"numbers": [4]},
        {"numbers": [1, 2, 3, 4, 5, 6]},
        {"numbers": [0, 3]},
        {"numbers": [4, 1001]},
        {"task": "easy-0000", "numbers": [4, 6]},
        {"max_steps": 0},
        {"target": -1},
    ],
)
def test_options_out_of_range_are_config_errors(options: dict[str, object]) -> None:
    with pytest.raises(ConfigError, match="toy24"):
        Toy24(**options)  # pyright: ignore[reportArgumentType]  wrong on purpose


def test_an_unknown_task_is_a_task_error() -> None:
    with pytest.raises(TaskError, match="easy-9999"):
        make("toy24", task="easy-9999")


def test_numbers_that_cannot_reach_the_target_have_no_reference_solution() -> None:
    assert Toy24(numbers=[1, 1]).reference_solution() is None
    assert Toy24(numbers=[1, 1], target=2).reference_solution() is not None


def test_reset_takes_a_step_limit_and_nothing_else() -> None:
    env = Toy24(max_steps=1)
    env.reset(0, {"max_steps": 2})
    restored = Toy24.from_state(env.save_state(), max_steps=1)
    for game in (env, restored):
        assert game.get_env_state()["steps_left"] == 2
        assert not game.step(Action(name="reset_numbers")).truncated
        assert game.step(Action(name="reset_numbers")).truncated
    env.reset(0)
    assert env.step(Action(name="reset_numbers")).truncated
    with pytest.raises(ConfigError, match=r"unknown reset option .level. .known: max_steps."):
        env.reset(0, {"level": "easy"})
    with pytest.raises(ConfigError, match="must be 1 or more, not 0"):
        env.reset(0, {"max_steps": 0})


# --- what the state says of the goal --------------------------------------------------------------------------------


@settings(max_examples=60)
@given(st.integers(0, 10_000), st.lists(st.integers(1, 9), min_size=2, max_size=4), st.integers(0, 9))
def test_the_moves_played_again_say_what_the_verifier_says(seed: int, numbers: list[int], target: int) -> None:
    rng = random.Random(seed)
    env = Toy24(numbers=numbers, target=target, max_steps=12)
    env.reset(seed)
    done = False
    while not done:
        state = env.get_env_state()
        assert env.goal_reached(state) == env.evaluate().success
        left = cast("list[str]", state["numbers"])
        if len(left) < 2 or rng.random() < 0.1:
            done = env.step(Action(name="reset_numbers")).truncated
            continue
        one, other = rng.sample(left, 2)
        response = combine(env, one, rng.choice("+-*/"), other)
        done = response.terminated or response.truncated
    assert env.goal_reached(env.get_env_state()) == env.evaluate().success


def test_the_goal_is_read_off_the_moves_and_not_off_what_the_verifier_goes_by() -> None:
    env = started([8, 3])
    combine(env, "8", "*", "3")
    state = env.get_env_state()
    assert env.goal_reached(state) is True
    assert env.goal_reached({**state, "numbers": ["7"], "solved": False}) is True
    assert env.goal_reached({**state, "moves": [], "numbers": ["24"], "solved": True}) is False
    assert env.goal_reached({**state, "moves": ["8 * 3 = 25"]}) is False
    assert env.goal_reached({**state, "moves": ["some"]}) is None
    assert env.goal_reached({"room": 4}) is None
