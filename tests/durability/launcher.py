"""Forks a driver a line: what it is to run, and where it is to kill itself. Run as a program by the durability tests.

Everything is imported once, so that a start costs a fork and not an interpreter. A driver tells what it does on the
standard output, a line each: `submit KEY`, `stored KEY`, `ask PURPOSE KEY`, `answered KEY`, `kept KEY`, `report`.
"""

from __future__ import annotations

import asyncio
import importlib
import json
import os
import resource
import signal
import sqlite3
import sys
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import envharness.report
from envharness.cli.app import run
from envharness.core.errors import EnvHarnessError
from envharness.llm import recorded
from envharness.llm.chat import ChatAnswer, ChatRequest
from envharness.rigger import call_records, calls, driver
from envharness.rollouts.backends.pool import PoolEngine
from envharness.store import schema
from envharness.store.database import RunStore

IMPORTED = (
    "envharness.bridges.toy24.environment",
    "envharness.cli.rigging",
    "envharness.report.page",
    "envharness.rigger.designers.llm",
    "envharness.rigger.designers.template",
)
"""What each driver would import by itself otherwise."""


class Fate:
    """Where this driver kills itself: at the so-manieth passing of a point. Nowhere, if it has no point."""

    point = ""
    passings = 0
    thinking_seconds = 0.02
    """What a recorded answer takes, so that a kill can come in between."""


def say(*words: str) -> None:
    os.write(1, (" ".join(words) + "\n").encode())


def passing(point: str) -> None:
    """Go past a point, or die at it."""
    if point == Fate.point:
        Fate.passings -= 1
        if Fate.passings <= 0:
            say("died", point)
            os.kill(os.getpid(), signal.SIGKILL)


class Connection(sqlite3.Connection):
    """Dies between the writing of a row and its commit."""

    def execute(self, sql: str, *arguments: Any) -> sqlite3.Cursor:
        if sql == "COMMIT":
            passing("commit")
        return super().execute(sql, *arguments)


Call = Callable[..., Any]


def submitting(submit: Call) -> Call:
    def told(self: PoolEngine, job: Any) -> None:
        say("submit", job.key)
        submit(self, job)
        passing("submit")

    return told


def storing(put: Call) -> Call:
    def told(self: RunStore, key: str, phase: str, episode: Any, job: Any) -> None:
        passing("got " + phase.rsplit("/", 1)[-1].partition("-")[0])
        put(self, key, phase, episode, job)
        say("stored", key)

    return told


def asking(submit: Call) -> Call:
    def told(self: calls.ModelCalls, call: Any) -> None:
        purpose = call.request.key.rpartition("/")[2]
        say("ask", purpose, call_records.call_key(call))
        submit(self, call)
        passing(f"ask {purpose}")

    return told


def keeping(keep: Call) -> Call:
    def told(store: RunStore, call: Any, answered: Any) -> None:
        say("answered", call_records.call_key(call))
        passing("answered " + call.request.key.rpartition("/")[2])
        keep(store, call, answered)
        say("kept", call_records.call_key(call))

    return told


def thinking(complete: Call) -> Call:
    async def slow(self: recorded.RecordedClient, request: ChatRequest) -> ChatAnswer:
        await asyncio.sleep(Fate.thinking_seconds)
        return await complete(self, request)

    return slow


def reporting(write: Call) -> Call:
    def told(store: RunStore, path: Path) -> None:
        say("report")
        passing("report")
        write(store, path)
        passing("reported")

    return told


def connecting(connect: Call) -> Call:
    def made(*arguments: Any, **options: Any) -> sqlite3.Connection:
        return connect(*arguments, factory=Connection, **options)

    return made


WRAPPED: list[tuple[Any, str, Callable[[Call], Call]]] = [
    (PoolEngine, "submit", submitting),
    (RunStore, "put_episode", storing),
    (calls.ModelCalls, "submit", asking),
    (driver, "store_answer", keeping),
    (recorded.RecordedClient, "complete", thinking),
    (envharness.report, "write_report", reporting),
    (sqlite3, "connect", connecting),
]


def shift_clock(steps: list[float]) -> None:
    """Have the wall clock jump by so many seconds, from one look at it to the next, to and fro."""
    real, looks = time.time, [0]

    def jumping() -> float:
        looks[0] += 1
        return real() + steps[looks[0] % len(steps)]

    time.time = jumping


def drive(order: dict[str, Any]) -> int:
    """Carry one order out, in the forked driver."""
    silence = os.open(order["log"], os.O_WRONLY | os.O_CREAT | os.O_APPEND)
    os.dup2(silence, 2)
    Fate.point, Fate.passings = order.get("die_at") or ("", 0)
    Fate.thinking_seconds = order.get("thinking_seconds", Fate.thinking_seconds)
    if order.get("clock"):
        shift_clock(order["clock"])
    if "busy_seconds" in order:
        schema.BUSY_SECONDS = order["busy_seconds"]
    if order.get("file_bytes"):
        resource.setrlimit(resource.RLIMIT_FSIZE, (order["file_bytes"], resource.RLIM_INFINITY))
    arguments = ["rig", "-c", order["config"], "--run-dir", order["run_dir"], *order.get("arguments", [])]
    sys.stdout = sys.stderr  # the command's own output would mingle with what is told here
    return run(arguments)


def main() -> None:
    for module in IMPORTED:
        importlib.import_module(module)
    for owner, name, wrap in WRAPPED:
        setattr(owner, name, wrap(getattr(owner, name)))
    assert threading.active_count() == 1
    for line in sys.stdin:
        pid = os.fork()
        if pid == 0:
            status = 70
            try:
                status = drive(json.loads(line))
            except (EnvHarnessError, SystemExit) as error:
                status = int(getattr(error, "code", 70) or 70)
            finally:
                os._exit(status)
        say("pid", str(pid))
        _, status = os.waitpid(pid, 0)
        say("gone", str(os.waitstatus_to_exitcode(status)))


if __name__ == "__main__":
    main()
