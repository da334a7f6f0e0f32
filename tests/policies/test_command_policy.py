from __future__ import annotations

import asyncio
import gc
import sys
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from envharness.bridges.toy24 import Toy24
from envharness.core.errors import ConfigError, PolicyError
from envharness.core.policy import Decision, PolicySpec, Turn
from envharness.core.types import Action, Observation, ToolSchema
from envharness.policies.command import CommandPolicy
from envharness.policies.program import LONGEST_ANSWER

TURN = Turn(observation=Observation(text="hällo", data={"n": 1}), tools=(ToolSchema(name="go"),), step=0)
ECHO = """
import json, sys
for line in sys.stdin:
    turn = json.loads(line)
    print(json.dumps({"action": {"name": "go", "kwargs": {"turn": turn}}, "text": "I go"}), flush=True)
"""


def program(source: str, seconds: float = 20.0, **options: object) -> CommandPolicy:
    return CommandPolicy(11, command=[sys.executable, "-c", source], seconds=seconds, **options)  # pyright: ignore[reportArgumentType]  options as in a file


def ask(policy: CommandPolicy, turns: int = 1) -> list[Decision]:
    """Ask some turns and close; the policy is closed even where an answer fails."""

    async def go() -> list[Decision]:
        try:
            return [await policy.act(TURN.model_copy(update={"step": step})) for step in range(turns)]
        finally:
            await policy.close()

    return asyncio.run(go())


def is_running(pid: int) -> bool:
    try:
        state = Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()[0]
    except FileNotFoundError:
        return False
    return state != "Z"


def wait_until(condition: Callable[[], bool], seconds: float = 5.0) -> bool:
    end = time.monotonic() + seconds
    while not condition() and time.monotonic() < end:
        time.sleep(0.02)
    return condition()


def test_a_program_is_told_the_turn_and_its_answer_is_the_decision() -> None:
    first, second = ask(program(ECHO), 2)
    assert first.text == "I go"
    assert first.action == Action(
        name="go",
        kwargs={
            "turn": {
                "protocol": 1,
                "seed": 11,
                "step": 0,
                "observation": {"text": "hällo", "data": {"n": 1}},
                "tools": [{"name": "go", "description": "", "parameters": {}}],
            }
        },
    )
    assert second.action is not None
    assert second.action.kwargs["turn"]["step"] == 1  # pyright: ignore[reportArgumentType, reportCallIssue, reportIndexIssue, reportOptionalSubscript]  JSON


@pytest.mark.parametrize(
    ("answer", "decision"),
    [
        ('{"stop": true}', Decision(stop=True)),
        ('{"action": null}', Decision()),
        ('{"action": {"name": "a"}, "usage": {"calls": 1}}', None),
    ],
)
def test_stopping_passing_and_usage(answer: str, decision: Decision | None) -> None:
    got = ask(program(f"input(); print({answer!r}, flush=True); input()"))[0]
    if decision is None:
        assert got.usage.calls == 1
        assert got.action == Action(name="a")
    else:
        assert got == decision


@pytest.mark.parametrize(
    ("source", "said"),
    [
        ("input(); print('hello', flush=True); input()", "wrong answer: .*'hello'"),
        ("input(); print('[1]', flush=True); input()", "not an object with 'action' or 'stop'"),
        ("input(); print('{}', flush=True); input()", "not an object with 'action' or 'stop'"),
        ("""input(); print('{"stop": "perhaps"}', flush=True); input()""", "stop: "),
        ("""input(); print('{"action": {"name": 3}}', flush=True); input()""", "action.name"),
        ("""input(); print('{"stop": true, "reward": 9}', flush=True); input()""", "unknown key 'reward'"),
        ("import os; input(); os.write(1, bytes([255, 254, 10])); input()", "wrong answer"),
        ("import sys; input(); sys.exit(3)", "ended with exit code 3"),
        ("import os, signal; input(); os.kill(os.getpid(), signal.SIGKILL)", "ended by signal 9"),
        ("import sys; print('no idea', file=sys.stderr); sys.exit(1)", "exit code 1.*it said: no idea"),
        ("raise RuntimeError('broken agent')", "it said: (.|\n)*RuntimeError: broken agent"),
        ("import os, time; input(); os.close(1); time.sleep(60)", "closed its output"),
        (
            f"import sys; input(); sys.stdout.write('x' * {LONGEST_ANSWER + 100_000}); sys.stdout.flush(); input()",
            "more than",
        ),
    ],
)
def test_a_wrong_answer_is_a_policy_error_that_says_what_was_wrong(source: str, said: str) -> None:
    policy = program(source)
    with pytest.raises(PolicyError, match=said):
        ask(policy)


@pytest.mark.parametrize(
    "source",
    [
        "import time; time.sleep(60)",
        "import time; input(); print('half an answ', end='', flush=True); time.sleep(60)",
        "import signal, time; signal.signal(signal.SIGTERM, signal.SIG_IGN); time.sleep(60)",
        "import sys\nwhile True: sys.stderr.write('noise' * 1000)",
    ],
)
def test_silence_is_a_policy_error_after_the_time_limit(source: str) -> None:
    policy = program(source, seconds=1.0)
    began = time.monotonic()
    with pytest.raises(PolicyError, match="did not answer within 1 s"):
        ask(policy)
    assert time.monotonic() - began < 10


def test_an_answer_out_of_turn_is_a_policy_error() -> None:
    chatty = """
import sys
for line in sys.stdin:
    print('{"action": null}\\\\n{"action": null}', flush=True)
""".replace("\\\\n", "\\n")
    with pytest.raises(PolicyError, match="before it was asked"):
        ask(program(chatty), 3)


def test_a_flood_of_answers_does_not_fill_the_memory() -> None:
    flood = """
import sys
while True:
    sys.stdout.write('{"action": null}\\n' * 1000)
"""
    with pytest.raises(PolicyError, match="before it was asked"):
        ask(program(flood), 3)


def test_much_standard_error_beside_answers_blocks_nothing_and_only_its_tail_is_shown() -> None:
    noisy = """
import sys
for turn in range(3):
    input()
    sys.stderr.write('n' * 300_000)
    sys.stderr.flush()
    print('{"action": null}', flush=True)
sys.stderr.write('the end')
"""
    policy = program(noisy)
    with pytest.raises(PolicyError, match=r"n the end|nthe end") as caught:
        ask(policy, 4)
    assert len(str(caught.value)) < 3000


def test_a_large_turn_and_a_large_answer_pass() -> None:
    async def go() -> Decision:
        policy = program(ECHO)
        try:
            return await policy.act(TURN.model_copy(update={"observation": Observation(text="x" * 700_000)}))
        finally:
            await policy.close()

    assert len(str(asyncio.run(go()).action)) > 700_000


FORKS = """
import os, subprocess, sys
child = subprocess.Popen([sys.executable, "-c", "import time; time.sleep(600)"])
for line in sys.stdin:
    print('{"action": null, "text": "%d %d"}' % (os.getpid(), child.pid), flush=True)
"""


def test_closing_leaves_no_process_behind_children_included() -> None:
    (decision,) = ask(program(FORKS))
    pids = [int(pid) for pid in decision.text.split()]
    assert len(pids) == 2
    assert wait_until(lambda: not any(map(is_running, pids)))


def test_a_program_that_died_leaves_no_children_either(tmp_path: Path) -> None:
    source = f"""
import pathlib, subprocess, sys
child = subprocess.Popen([sys.executable, "-c", "import time; time.sleep(600)"], stdout=subprocess.DEVNULL)
pathlib.Path({str(tmp_path / "pid")!r}).write_text(str(child.pid))
"""
    with pytest.raises(PolicyError, match="exit code 0"):
        ask(program(source))
    pid = int((tmp_path / "pid").read_text())
    assert wait_until(lambda: not is_running(pid))


def test_a_time_limit_kills_the_children_too(tmp_path: Path) -> None:
    source = f"""
import pathlib, subprocess, sys, time
child = subprocess.Popen([sys.executable, "-c", "import time; time.sleep(600)"])
pathlib.Path({str(tmp_path / "pid")!r}).write_text(str(child.pid))
time.sleep(600)
"""
    with pytest.raises(PolicyError, match="did not answer"):
        ask(program(source, seconds=2.0))
    pid = int((tmp_path / "pid").read_text())
    assert wait_until(lambda: not is_running(pid))


def test_a_policy_that_nobody_closed_is_killed_when_it_is_collected() -> None:
    async def go() -> int:
        policy = program(FORKS)
        return int((await policy.act(TURN)).text.split()[0])

    pid = asyncio.run(go())
    gc.collect()
    assert wait_until(lambda: not is_running(pid))


def test_a_cancelled_turn_kills_the_program(tmp_path: Path) -> None:
    source = f"""
import os, pathlib, time
pathlib.Path({str(tmp_path / "pid")!r}).write_text(str(os.getpid()))
time.sleep(600)
"""
    policy = program(source, seconds=100)

    async def go() -> None:
        turn = asyncio.create_task(policy.act(TURN))
        written = tmp_path / "pid"
        assert await asyncio.to_thread(wait_until, lambda: written.exists() and written.read_text() != "", 20.0)
        turn.cancel()
        with pytest.raises(asyncio.CancelledError):
            await turn

    asyncio.run(go())
    pid = int((tmp_path / "pid").read_text())
    assert wait_until(lambda: not is_running(pid))


def test_only_named_variables_reach_the_program(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SECRET_TOKEN", "hidden")
    monkeypatch.setenv("AGENT_MODE", "bold")
    source = """
import json, os
input()
print(json.dumps({"action": None, "text": json.dumps(dict(os.environ))}), flush=True)
input()
"""
    shown = ask(program(source, environment=["AGENT_MODE"]))[0].text
    assert "hidden" not in shown
    assert '"AGENT_MODE": "bold"' in shown
    assert '"PATH": "/usr/local/bin:/usr/bin:/bin"' in shown
    assert "HOME" not in shown


def test_the_folder_is_where_the_program_works(tmp_path: Path) -> None:
    source = (
        """import json, os; input(); print(json.dumps({"action": None, "text": os.getcwd()}), flush=True); input()"""
    )
    assert ask(program(source, folder=str(tmp_path)))[0].text == str(tmp_path.resolve())


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ({"command": ""}, "empty"),
        ({"command": []}, "empty"),
        ({"command": "agent 'half"}, "cannot split"),
        ({"command": "agent", "seconds": 0}, "more than 0"),
        ({"command": "agent", "environment": ["NOT_SET_ANYWHERE"]}, "NOT_SET_ANYWHERE"),
    ],
)
def test_wrong_options_are_config_errors(options: dict[str, object], said: str) -> None:
    with pytest.raises(ConfigError, match=said):
        CommandPolicy(0, **options)  # pyright: ignore[reportArgumentType]  wrong on purpose


def test_a_program_that_does_not_exist_is_a_policy_error_that_says_where_it_was_looked_for() -> None:
    with pytest.raises(PolicyError, match=r"cannot be started.*PATH"):
        ask(CommandPolicy(0, command="no-such-agent --fast"))


def test_acting_after_close_or_after_an_error_is_a_policy_error() -> None:
    policy = program(ECHO)
    ask(policy)
    with pytest.raises(PolicyError, match="closed"):
        ask(policy)


def test_it_serves_on_one_event_loop_after_another() -> None:
    policy = program(ECHO)
    assert asyncio.run(policy.act(TURN)).text == "I go"
    assert asyncio.run(policy.act(TURN)).text == "I go"
    asyncio.run(policy.close())


def test_an_agent_of_a_user_wins_a_game() -> None:
    agent = """
import json, sys
plan = [("6", "*", "4"), ("24", "*", "1")]
for line in sys.stdin:
    turn = json.loads(line)
    assert "Target: 24" in turn["observation"]["text"]
    left, operation, right = plan[turn["step"]]
    action = {"name": "combine", "kwargs": {"left": left, "operation": operation, "right": right}}
    print(json.dumps({"action": action}), flush=True)
"""
    env = Toy24(numbers=[1, 4, 6])
    policy = PolicySpec(id="command", options={"command": [sys.executable, "-c", agent]}).build(0)

    async def go() -> None:
        shown = env.reset(0).observation
        for step in range(2):
            decision = await policy.act(Turn(observation=shown, tools=tuple(env.tool_schemas()), step=step))
            assert decision.action is not None
            shown = env.step(decision.action).observation
        await policy.close()

    asyncio.run(go())
    assert env.evaluate().success


def test_no_descriptor_is_left_open() -> None:
    before = len(list(Path("/proc/self/fd").iterdir()))
    for _ in range(3):
        ask(program(ECHO))
        with pytest.raises(PolicyError):
            ask(program("raise SystemExit(1)"))
    assert len(list(Path("/proc/self/fd").iterdir())) == before


LEAKING = """
import json, os, sys
sys.stderr.write("my key is " + os.environ["THE_KEY"] + chr(10))
for line in sys.stdin:
    if json.loads(line)["step"]:
        sys.exit(3)
    print(json.dumps({"action": {"name": "go"}, "text": "I use " + os.environ["THE_KEY"]}), flush=True)
"""


def test_a_secret_that_a_program_prints_is_not_stored(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("THE_KEY", "sk-0123456789")
    [decision] = ask(program(LEAKING, environment=["THE_KEY"]))
    assert decision.text == "I use $THE_KEY"
    with pytest.raises(PolicyError, match=r"my key is \$THE_KEY") as caught:
        ask(program(LEAKING, environment="THE_KEY"), 2)
    assert "sk-0123456789" not in str(caught.value)


@pytest.mark.parametrize(
    "options",
    [
        {"command": None},
        {"command": {"a": 1}},
        {"command": 5},
        {"seconds": "1e3"},
        {"seconds": True},
        {"environment": 5},
    ],
)
def test_options_of_a_wrong_type_are_named(options: dict[str, object]) -> None:
    with pytest.raises(ConfigError, match=f"policy command: {next(iter(options))}"):
        PolicySpec.model_validate({"id": "command", "options": {"command": "x", **options}}).check()
