"""Processes that leave the group they were started in: ended with the episode, and at the latest with the worker."""

from __future__ import annotations

import asyncio
import os
import signal
import sys
from pathlib import Path

import pytest

from envharness.core.policy import PolicySpec, Turn
from envharness.core.types import Observation
from envharness.policies.command import CommandPolicy
from envharness.rollouts.backends.pool import PoolEngine
from rollouts.hostile import job
from rollouts.processes import command_of, eventually, workers_of

pytestmark = pytest.mark.slow

# A program that starts a daemon the way daemons start, says the daemon's number, and stops the episode.
AGENT = """
import os, sys, json
def daemon():
    if os.fork() == 0:
        os.setsid()
        if os.fork() == 0:
            with open(sys.argv[1], "w") as file:
                file.write(str(os.getpid()))
            for end in (0, 1, 2):
                os.close(end)
            os.execvpe("sleep", ["sleep", "512"], {} if "wiped" in sys.argv else os.environ)
        os._exit(0)
    os.wait()
    while not os.path.exists(sys.argv[1]) or not open(sys.argv[1]).read():
        pass
    # Until then it is a copy of this program, label and all.
    while b"sleep" not in open(f"/proc/{open(sys.argv[1]).read()}/cmdline", "rb").read():
        pass
sys.stdin.readline()
daemon()
print(json.dumps({"stop": True} if "waits" not in sys.argv else {"action": None}), flush=True)
sys.stdin.read()
"""
TURN = Turn(observation=Observation(text="go"), tools=(), step=0)


def agent(tmp_path: Path, *how: str) -> tuple[Path, list[str]]:
    script, told = tmp_path / "agent.py", tmp_path / "daemon"
    script.write_text(AGENT)
    return told, [sys.executable, str(script), str(told), *how]


def daemon(told: Path) -> int:
    assert eventually(lambda: told.exists() and told.read_text().isdigit(), 30)
    pid = int(told.read_text())
    assert eventually(lambda: "sleep 512" in command_of(pid))
    return pid


def test_a_daemon_of_a_policys_program_ends_with_the_episode(tmp_path: Path) -> None:
    told, command = agent(tmp_path)
    policy = CommandPolicy(0, command=command)

    async def play() -> int:
        await policy.act(TURN)
        pid = daemon(told)
        await policy.close()
        return pid

    pid = asyncio.run(play())
    assert not command_of(pid)


def test_in_a_worker_it_ends_with_the_episode_too_and_the_worker_goes_on(tmp_path: Path) -> None:
    told, command = agent(tmp_path)
    with PoolEngine(workers=1, retries=0) as engine:
        [(_, episode)] = engine.run([job(policy=PolicySpec(id="command", options={"command": [*command]}))])
        assert episode.outcome.reason == "stopped", episode.outcome
        assert told.read_text().isdigit()
        assert not command_of(int(told.read_text()))
        [(_, episode)] = engine.run([job()])
        assert episode.success
        assert episode.worker == "worker-1"


def test_one_that_wiped_its_label_ends_with_the_worker(tmp_path: Path) -> None:
    told, command = agent(tmp_path, "wiped")
    with PoolEngine(workers=1, retries=0) as engine:
        list(engine.run([job(policy=PolicySpec(id="command", options={"command": [*command]}))]))
        pid = daemon(told)
    assert not command_of(pid)


def test_what_a_killed_worker_leaves_is_ended_by_the_driver(tmp_path: Path) -> None:
    told, command = agent(tmp_path, "waits")
    with PoolEngine(workers=1, retries=0) as engine:
        engine.submit(job(policy=PolicySpec(id="command", options={"command": [*command]})))
        pid = daemon(told)
        for worker in workers_of(os.getpid()):
            os.kill(worker, signal.SIGKILL)
        result = engine.next_result(30)
        assert result is not None
        assert result[1].outcome.reason == "worker_died"
        assert not command_of(pid)
