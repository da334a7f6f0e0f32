from __future__ import annotations

import os
import random
import subprocess
import sys
import threading

import pytest

from envharness.bridges.alfworld import Alfworld
from envharness.core.errors import ConfigError, LifecycleError, SpecError, ThreadError
from envharness.core.spec import StackSpec, make
from envharness.core.state_schema import state_violations
from envharness.core.types import Action, EnvResponse, JsonDict
from envharness.testing.suite import ConformanceSuite


def _act(env: Alfworld, command: str) -> EnvResponse:
    return env.step(Action(name="act", kwargs={"command": command}))


def _walk(env: Alfworld) -> list[EnvResponse]:
    return [env.step(action) for action in env.reference_solution() or []]


@pytest.mark.parametrize("task", ["builtin/mug-to-desk", "builtin/clean-cup-to-shelf"])
def test_the_walkthrough_wins_and_only_at_its_end(task: str, alfworld_engine: None) -> None:
    with Alfworld(task=task) as env:
        env.reset()
        assert not env.evaluate().success
        responses = _walk(env)
        assert [response.terminated for response in responses] == [False] * (len(responses) - 1) + [True]
        assert [response.reward for response in responses] == [0.0] * (len(responses) - 1) + [1.0]
        assert not any("ineffective" in response.info for response in responses)
        assert env.evaluate().success
        assert env.evaluate().score == 1.0


def test_text_and_data_show_feedback_goal_and_commands_but_not_the_verdict(mug: Alfworld) -> None:
    first = mug.reset().observation
    assert first.text.count("Your task is to: put a mug in desk.") == 1
    shown = _act(mug, "go to countertop 1").observation
    assert shown.text.startswith("You arrive at countertop 1. On the countertop 1, you see a apple 1, and a mug 1.")
    assert shown.text.count("Your task is to: put a mug in desk.") == 1
    assert "\n- take mug 1 from countertop 1" in shown.text
    assert shown.data.keys() == {"feedback", "goal", "admissible_commands"}
    assert shown.data["goal"] == "put a mug in desk"
    assert mug.observe() == shown
    assert mug.observe() == shown


def test_an_ineffective_command_is_marked_and_changes_nothing(mug: Alfworld) -> None:
    mug.reset()
    _act(mug, "go to countertop 1")
    before = mug.get_env_state()
    for command in ("Take mug 1 from countertop 1", "take the mug 1 from countertop 1", "take mug 1 from desk 1", ""):
        response = _act(mug, command)
        assert response.info["ineffective"] is True
        assert response.observation.data["feedback"] == "Nothing happens."
    after = mug.get_env_state()
    changed = {key for key in after if after[key] != before[key]}
    assert changed == {"steps"}
    assert "ineffective" not in _act(mug, "take mug 1 from countertop 1").info


@pytest.mark.parametrize(
    "command",
    [
        "Take Mug 1 from Countertop 1",
        "take the mug 1 from the countertop 1.",
        " take  mug 1  from countertop 1 ",
    ],
)
def test_tolerance_maps_near_misses_and_says_so(command: str, alfworld_engine: None) -> None:
    with Alfworld(task="builtin/mug-to-desk", tolerant=True) as env:
        env.reset()
        assert "mapped_command" not in _act(env, "go to countertop 1").info
        response = _act(env, command)
        assert response.info == {"mapped_command": "take mug 1 from countertop 1"}
        _act(env, "go to desk 1")
        response = _act(env, "put mug 1 in/on desk 1")
        assert response.info == {"mapped_command": "move mug 1 to desk 1"}
        assert response.terminated
        assert env.evaluate().success


def test_tolerance_does_not_guess(alfworld_engine: None) -> None:
    with Alfworld(task="builtin/mug-to-desk", tolerant=True) as env:
        env.reset()
        for command in ("go to bed 1", "take mug 1", "put mug 1 in desk 1"):
            assert _act(env, command).info == {"ineffective": True}


def test_the_step_limit_truncates(alfworld_engine: None) -> None:
    with Alfworld(task="builtin/mug-to-desk", max_steps=2) as env:
        env.reset()
        assert not _act(env, "look").truncated
        response = _act(env, "xyzzy")
        assert response.truncated
        assert not response.terminated
        assert not env.evaluate().success
        with pytest.raises(LifecycleError, match="after the end"):
            _act(env, "look")
    with Alfworld(task="builtin/mug-to-desk", max_steps=4) as env:
        env.reset()
        last = _walk(env)[-1]
        assert last.terminated
        assert not last.truncated


def test_what_a_stage_replays_is_not_charged(alfworld_engine: None) -> None:
    guard: JsonDict = {"repeats": 2, "window": 2}
    with Alfworld(task="builtin/mug-to-desk", max_steps=2, repetition_guard=guard) as env:
        env.reset()
        _act(env, "look")
        env.notify_replay_complete()
        assert env.get_env_state()["steps"] == 0
        assert not _act(env, "look").truncated
        assert _act(env, "inventory").truncated


def test_the_repetition_guard_looks_at_command_and_answer(alfworld_engine: None) -> None:
    with Alfworld(task="builtin/mug-to-desk", repetition_guard={"repeats": 2, "window": 4}) as env:
        env.reset()
        for command in ("go to countertop 1", "inventory", "take mug 1 from countertop 1"):
            assert not _act(env, command).truncated
        # The same command with another answer is progress ...
        assert not _act(env, "inventory").truncated
        # ... with the same answer it is not.
        response = _act(env, "inventory")
        assert response.truncated
        assert response.info["repetition"] is True


def test_the_order_of_calls_is_kept(mug: Alfworld) -> None:
    for call in (mug.observe, mug.evaluate, mug.get_env_state, lambda: _act(mug, "look")):
        with pytest.raises(LifecycleError, match="before reset"):
            call()
    mug.reset()
    mug.close()
    mug.close()
    with pytest.raises(LifecycleError, match="after close"):
        mug.reset()


def test_a_call_that_does_not_fit_is_refused_and_not_charged(mug: Alfworld) -> None:
    mug.reset()
    before = mug.get_env_state()
    for action in (
        Action(name="go", kwargs={"command": "look"}),
        Action(name="act"),
        Action(name="act", kwargs={"command": 3}),
        Action(name="act", kwargs={"command": "look", "won": True}),
    ):
        assert mug.step(action).info["refused"]
    assert mug.get_env_state() == before


def test_the_state_keeps_to_its_description_and_follows_the_game(mug: Alfworld) -> None:
    mug.reset()
    for action in mug.reference_solution() or []:
        mug.step(action)
        assert state_violations(mug.env_state_schema(), mug.get_env_state()) == []
        if action.kwargs["command"] == "take mug 1 from countertop 1":
            taken = mug.get_env_state()
            assert taken["holding"] == "mug 1"
            assert taken["facing"] == ["countertop 1"]
            assert taken["visible"] == ["apple 1"]
            assert taken["closed"] == ["drawer 1", "drawer 2"]
    end = mug.get_env_state()
    assert end["won"] is True
    assert end["holding"] is None
    assert end["contents"] == {
        "countertop 1": ["apple 1"],
        "desk 1": ["book 1", "mug 1"],
        "drawer 1": [],
        "drawer 2": [],
        "shelf 1": [],
    }


def test_conditions_and_open_receptacles_show(alfworld_engine: None) -> None:
    with Alfworld(task="builtin/clean-cup-to-shelf") as env:
        env.reset()
        assert env.get_env_state()["conditions"] == {}
        _walk(env)
        state = env.get_env_state()
        assert state["conditions"] == {"cup 1": ["clean"]}
        assert state["open"] == ["cabinet 2"]


def test_the_state_is_a_copy(mug: Alfworld) -> None:
    mug.reset()
    state = mug.get_env_state()
    state["won"] = True
    contents = state["contents"]
    assert isinstance(contents, dict)
    contents.clear()
    assert mug.get_env_state()["contents"]
    assert not mug.evaluate().success


def test_the_same_actions_give_the_same_states_after_any_reset(mug: Alfworld) -> None:
    def play(commands: list[str]) -> list[JsonDict]:
        mug.reset(seed=len(commands))
        states = [mug.get_env_state()]
        for command in commands:
            _act(mug, command)
            states.append(mug.get_env_state())
        return states

    commands = ["go to drawer 1", "open drawer 1", "go to countertop 1", "take apple 1 from countertop 1", "look"]
    first = play(commands)
    play(["go to countertop 1", "take mug 1 from countertop 1", "go to desk 1", "move mug 1 to desk 1"])
    assert play(commands) == first


def test_the_global_random_stream_is_left_alone(mug: Alfworld) -> None:
    random.seed(7)
    before = random.getstate()
    mug.reset(seed=3)
    _walk(mug)
    assert random.getstate() == before


def test_save_and_load_give_the_same_task(alfworld_engine: None) -> None:
    env = make("alfworld", split="builtin", index=1, max_steps=7)
    env.reset()
    state = env.save_state()
    assert Alfworld.from_state(state, max_steps=7).task_id == "builtin/mug-to-desk"
    spec = StackSpec.from_json(env.spec.to_json())
    env.close()
    with spec.build() as again:
        assert again.reset().observation.data["goal"] == "put a mug in desk"
    with pytest.raises(SpecError, match="options name"):
        Alfworld.from_state(state, task="builtin/clean-cup-to-shelf")
    with pytest.raises(SpecError, match="expected only the key 'task'"):
        Alfworld.from_state({"task": "builtin/mug-to-desk", "score": 1})


def test_reset_takes_a_step_limit_and_nothing_else(mug: Alfworld) -> None:
    mug.reset(options={"max_steps": 1})
    assert _act(mug, "look").truncated
    mug.reset()
    assert not _act(mug, "look").truncated
    with pytest.raises(ConfigError, match=r"unknown reset option .task. .known: max_steps."):
        mug.reset(options={"task": "builtin/clean-cup-to-shelf"})
    for wrong in (0, True, "5", None):
        with pytest.raises(ConfigError, match="max_steps must be 1 or more"):
            mug.reset(options={"max_steps": wrong})


def test_another_thread_is_refused(mug: Alfworld) -> None:
    mug.reset()
    errors: list[BaseException] = []

    def enter() -> None:
        for call in (lambda: _act(mug, "look"), mug.evaluate, mug.get_env_state, mug.reset):
            try:
                call()
            except ThreadError as error:
                errors.append(error)

    thread = threading.Thread(target=enter, name="intruder")
    thread.start()
    thread.join()
    assert len(errors) == 4
    assert "used from 'intruder'" in str(errors[0])
    assert _act(mug, "go to countertop 1").info == {}


def test_environments_on_several_threads_take_turns(alfworld_engine: None) -> None:
    def play(task: str, seed: int, told: dict[int, list[str]]) -> None:
        rng = random.Random(seed)
        with Alfworld(task=task) as env:
            shown = env.reset().observation
            texts = [shown.text]
            while len(texts) < 40:
                commands = shown.data["admissible_commands"]
                assert isinstance(commands, list)
                response = _act(env, str(rng.choice(commands)))
                shown = response.observation
                texts.append(shown.text + repr(env.get_env_state()["contents"]))
                if response.terminated:
                    shown = env.reset().observation
            told[seed] = texts

    tasks = [Alfworld().list_tasks()[seed % 2] for seed in range(4)]
    alone: dict[int, list[str]] = {}
    for seed, task in enumerate(tasks):
        play(task, seed, alone)
    together: dict[int, list[str]] = {}
    threads = [threading.Thread(target=play, args=(task, seed, together)) for seed, task in enumerate(tasks)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert together == alone


def test_a_forked_child_goes_on_with_the_episode(mug: Alfworld) -> None:
    mug.reset()
    _act(mug, "go to countertop 1")
    child = os.fork()
    if child == 0:
        for command in ("take mug 1 from countertop 1", "go to desk 1", "move mug 1 to desk 1"):
            _act(mug, command)
        os._exit(17 if mug.evaluate().success else 1)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 17
    assert not mug.evaluate().success
    assert mug.get_env_state()["holding"] is None


class TestBuiltInGame(ConformanceSuite):
    @pytest.fixture(autouse=True)
    def _needs_engine(self, alfworld_engine: None) -> None:
        pass

    def make_env(self) -> StackSpec:
        return StackSpec.environment("alfworld", task="builtin/clean-cup-to-shelf")


@pytest.mark.slow
def test_the_engine_does_not_set_the_data_folder_for_the_whole_process(alfworld_engine: None) -> None:
    code = (
        "import os; from envharness.core.spec import make; env = make('alfworld'); env.reset(); "
        "print('ALFWORLD_DATA' in os.environ, len(make('alfworld').list_tasks()))"
    )
    environment = {key: value for key, value in os.environ.items() if key != "ALFWORLD_DATA"}
    run = subprocess.run([sys.executable, "-c", code], env=environment, capture_output=True, check=True, text=True)
    assert run.stdout.split() == ["False", "2"]
