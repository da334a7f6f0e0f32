"""What hook source finds: the state's view, the helpers, the allowed imports, a fixed clock and fixed dice."""

from __future__ import annotations

import copy
from textwrap import indent

import orjson
import pytest

from envharness.core.errors import HookFault
from envharness.core.types import Action, Blocked, EnvResponse, JsonDict, Observation
from envharness.sandbox import HookLimits, open_session, stop_zygote
from envharness.sandbox.hook_scope import bash_command, failed, is_submission
from envharness.sandbox.hook_source import ALLOWED_IMPORTS
from envharness.sandbox.state_view import EnvState, HookMemory, StateView

STATE: JsonDict = {"room": {"name": "hall", "items": [{"id": 1}, [{"id": 2}]]}, "steps": 3, "get": "a key"}


def view(memory: HookMemory | None = None) -> EnvState:
    return EnvState(copy.deepcopy(STATE), memory or HookMemory())


def say(body: str, *, seed: int = 1, state: JsonDict | None = None, calls: int = 1) -> list[str]:
    """Run `body` in a hook, which sets `said`; what it said, call by call."""
    source = f"class _Contract(Contract):\n    def filter_action(self, action, env_state):\n{indent(body, ' ' * 8)}\n"
    source += "        return Blocked(reason=str(said))\n"
    answers: list[str] = []
    with open_session(source, seed=seed, limits=HookLimits(call_seconds=10)) as session:
        for _ in range(calls):
            answer = session.filter_action(Action(name="x"), state or {})
            assert isinstance(answer, Blocked)
            answers.append(answer.reason)
    return answers


def test_the_state_reads_like_an_object_and_like_a_dict() -> None:
    state = view()
    assert state.room.name == state["room"]["name"] == state.get("room").get("name") == "hall"
    assert state.room["items"][0].id == 1
    assert state.room["items"][1][0].id == 2
    assert next(value for value in state.values() if isinstance(value, StateView)).name == "hall"
    assert {key for key, _ in state.items()} == set(STATE)
    assert "room" in state
    assert "extras" not in state
    assert state.get("nothing") is None
    assert state.get("nothing", 5) == 5
    assert state["get"] == "a key"
    assert orjson.loads(orjson.dumps(state)) == STATE
    assert copy.deepcopy(state) == state
    assert copy.copy(state).room.name == "hall"


def test_a_missing_attribute_names_the_known_ones() -> None:
    with pytest.raises(AttributeError, match=r"no 'rooms' here; it has: get, room, steps"):
        _ = view().rooms
    with pytest.raises(AttributeError, match=r"no 'nam' here; it has: items, name"):
        _ = view().room.nam
    with pytest.raises(KeyError):
        _ = view()["rooms"]


def test_extras_last_and_the_rest_does_not() -> None:
    memory = HookMemory()
    first = view(memory)
    first.extras["seen"] = 1
    first.steps = 99
    second = view(memory)
    assert second.extras == second["extras"] == second.get("extras") == {"seen": 1}
    assert second.steps == 3
    second.extras = {"new": 2}
    assert view(memory).extras == {"new": 2}


def test_extras_and_attributes_last_across_calls_in_the_hook_process() -> None:
    body = "self.n = getattr(self, 'n', 0) + 1\nenv_state.extras['n'] = env_state.extras.get('n', 0) + 1\n"
    assert say(body + "said = (self.n, env_state.extras.n if False else env_state.extras['n'])", calls=2) == [
        "(1, 1)",
        "(2, 2)",
    ]


def test_a_hook_that_spoils_the_state_does_not_spoil_the_next_call() -> None:
    body = "said = env_state.room['name']\nenv_state.room['name'] = 'spoilt'\nenv_state.clear()"
    assert say(body, state=STATE, calls=3) == ["hall"] * 3


@pytest.mark.parametrize(
    ("action", "command"),
    [
        (Action(name="bash", kwargs={"command": "ls -l"}), "ls -l"),
        (Action(name="Execute_Bash", kwargs={"cmd": "pwd"}), "pwd"),
        (Action(name="shell", kwargs={"command": ["ls", "-l"]}), "ls -l"),
        (Action(name="bash", kwargs={}), ""),
        (Action(name="bash", kwargs={"command": 7}), ""),
        (Action(name="go", kwargs={"command": "north"}), ""),
    ],
)
def test_bash_command(action: Action, command: str) -> None:
    assert bash_command(action) == command


@pytest.mark.parametrize(
    ("command", "submits"),
    [
        ("echo COMPLETE_TASK_AND_SUBMIT_FINAL_OUTPUT && cat patch.txt", True),
        ("submit", True),
        (" Submit\n", True),
        ("git commit -m 'submit'", False),
        ("", False),
        (Action(name="submit"), True),
        (Action(name="stop", kwargs={"answer": "x"}), True),
        (Action(name="bash", kwargs={"command": "echo COMPLETE_TASK_AND_SUBMIT_FINAL_OUTPUT"}), True),
        (Action(name="bash", kwargs={"command": "ls"}), False),
        (Action(name="go"), False),
    ],
)
def test_is_submission(command: str | Action, *, submits: bool) -> None:
    assert is_submission(command) is submits


def test_failed_is_a_copy_that_is_not_terminated() -> None:
    response = EnvResponse(
        observation=Observation(text="bye", data={"a": 1}), reward=0.5, terminated=True, truncated=True, info={"b": 2}
    )
    before = response.model_copy(deep=True)
    again = failed(response, "not yet")
    assert again == EnvResponse(
        observation=Observation(text="not yet"), reward=0.5, terminated=False, truncated=True, info={"b": 2}
    )
    again.info["c"] = 3
    assert response == before


def test_every_allowed_module_can_be_imported_and_used() -> None:
    imports = "\n".join(f"import {name}" for name in ALLOWED_IMPORTS)
    uses = """
from collections.abc import Mapping
from dataclasses import dataclass
from typing import NamedTuple
@dataclass
class Point:
    x: int
    label: "str" = "p"
class Pair(NamedTuple):
    a: int
said = [Point(1), Pair(2), re.sub("a", "b", "cat"), json.loads("[1]"), textwrap.shorten("a b c", 3, placeholder=""),
        datetime.datetime.strptime("2020-05-06", "%Y-%m-%d").strftime("%d %B"), statistics.median([1, 2, 9]),
        "x".encode("utf-16"), "\\N{BULLET}", copy.deepcopy({"k": [1]}), string.ascii_letters[:2]]
"""
    assert "Point(x=1, label='p')" in say(imports + uses)[0]


@pytest.mark.parametrize("module", ["os", "sys", "subprocess", "time", "numpy", "envharness.core.types", "builtins"])
def test_other_imports_say_what_there_is(module: str) -> None:
    with pytest.raises(HookFault, match=rf"cannot import '{module}'.*re, json, math.*bash_command"):
        say(f"import {module}\nsaid = 1")


def test_printing_is_harmless() -> None:
    assert say("for _ in range(1000): print('x' * 1000)\nsaid = 'fine'") == ["fine"]


def test_the_clock_stands_still() -> None:
    body = "from datetime import datetime, date, timezone\n"
    body += "said = [datetime.now(), date.today(), datetime.now(timezone.utc), isinstance(datetime.now(), date)]"
    first, second = say(body, calls=2)
    assert first == second
    assert "2024, 1, 1" in first
    assert first.endswith("True]")


def test_the_dice_follow_the_seed_and_nothing_else() -> None:
    body = (
        "import random\nsaid = [random.random(), random.Random().random(), random.SystemRandom().random(), hash('a')]"
    )
    first = say(body, seed=7, calls=2)
    stop_zygote()
    assert say(body, seed=7, calls=2) == first
    assert say(body, seed=8, calls=2) != first
    assert first[0] != first[1]


def test_restart_begins_everything_again() -> None:
    source = """
import random
class _Contract(Contract):
    seen = []
    def filter_action(self, action, env_state):
        self.seen.append(1)
        env_state.extras["n"] = env_state.extras.get("n", 0) + 1
        return Blocked(reason=f"{len(self.seen)} {env_state.extras['n']} {random.random()}")
"""
    with open_session(source, seed=3) as session:
        first = [session.filter_action(Action(name="x"), {}) for _ in range(2)]
        session.restart_extras()
        assert [session.filter_action(Action(name="x"), {}) for _ in range(2)] == first
