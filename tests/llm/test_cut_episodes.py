"""What a policy was answered in an episode that was cut: paid for, so it is in the books."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Literal

import pytest

from envharness.core.errors import BudgetExhaustedError, ProviderRefusedError
from envharness.core.policy import PolicySpec
from envharness.core.spec import StackSpec
from envharness.core.usage import Usage
from envharness.rigger.loop import rig as carry_out
from envharness.rollouts.backends.pool import PoolEngine
from envharness.rollouts.engine import Engine, make_engine
from envharness.rollouts.job import Limits, RolloutJob
from envharness.rollouts.ledger import LEDGER, Ledger, read_ledger
from envharness.store.database import RunStore
from envharness.testing import fault_replies as replies
from envharness.testing.fault_server import FaultServer
from llm.test_runs import two_tasks
from rollouts.hostile import job, kitchen
from rollouts.processes import eventually

pytestmark = pytest.mark.slow

TESTS = Path(__file__).parents[1]
ANSWERED = 7
"""Calls that the server answers before it falls silent."""
USED = Usage(calls=ANSWERED, prompt=10 * ANSWERED, completion=5 * ANSWERED)
AT_ONCE = {"inline": 1, "pool": 6}


def falling_silent() -> FaultServer:
    return FaultServer(lambda _, number: replies.answer() if number < ANSWERED else replies.hang())


def asking(server: FaultServer, index: int = 0) -> RolloutJob:
    return RolloutJob(
        task="any",
        stack=StackSpec.environment("toy24"),
        policy=PolicySpec(id="llm.asking:Asking", options={"url": server.base_url}),
        env_seed=1,
        policy_seed=index,
        index=index,
        limits=Limits(max_steps=40),
    )


def ledger_of(folder: Path) -> Ledger:
    with RunStore.read(folder) as store:
        return read_ledger(store)


def rig(config: Path, folder: Path, backend: str, *arguments: str) -> subprocess.Popen[bytes]:
    options = ["--run-dir", str(folder), "--backend", backend, "--workers", "1", "--episodes-per-worker", "6"]
    with (folder.parent / "log").open("wb") as log:
        return subprocess.Popen(
            [sys.executable, "-m", "envharness.cli", "rig", "-c", str(config), *options, *arguments],
            env={**os.environ, "PYTHONPATH": str(TESTS)},
            stderr=log,
        )


def twice(process: subprocess.Popen[bytes]) -> None:
    process.send_signal(signal.SIGTERM)
    assert eventually(lambda: "finishing what is in flight" in (log_of(process)), 10)
    process.send_signal(signal.SIGTERM)


def log_of(process: subprocess.Popen[bytes]) -> str:
    return Path(f"/proc/{process.pid}/fd/2").read_text()


ENDS: dict[str, tuple[list[str], Callable[[subprocess.Popen[bytes]], None], int]] = {
    "TERM twice": (["--grace", "60"], twice, 143),
    "the grace time is over": (["--grace", "0.2"], lambda process: process.send_signal(signal.SIGTERM), 143),
    "INT without grace": (["--grace", "0"], lambda process: process.send_signal(signal.SIGINT), 130),
}


@pytest.mark.parametrize(
    ("backend", "how"),
    [
        ("inline", "INT without grace"),
        ("inline", "the grace time is over"),
        ("pool", "TERM twice"),
        ("pool", "the grace time is over"),
    ],
)
def test_an_interruption_leaves_nothing_answered_out_of_the_books(
    backend: Literal["inline", "pool"], how: str, tmp_path: Path
) -> None:
    arguments, interrupt, status = ENDS[how]
    config, folder = tmp_path / "rig.yaml", tmp_path / "run"
    with falling_silent() as server:
        plan = two_tasks(server).model_copy(update={"limits": Limits(max_steps=40)})
        settings = plan.model_dump_json(exclude_defaults=True)
        config.write_text(settings)
        process = rig(config, folder, backend, *arguments)
        try:
            assert eventually(lambda: len(server.requests) == ANSWERED + AT_ONCE[backend], 60), len(server.requests)
            interrupt(process)
            assert process.wait(30) == status, (tmp_path / "log").read_text()
        finally:
            process.kill()
            process.wait()
        asked = len(server.requests)
        ledger = ledger_of(folder)
        assert ledger.by_role() == {"policy": USED}
        with RunStore.read(folder) as store:
            shown = dict(store.records(LEDGER))["policy"]
        assert shown == {task: used.model_dump(mode="json") for _, task, used in ledger}
        # A budget that this has spent already lets nothing more be asked.
        config.write_text(settings[:-1] + f', "budget": {{"tokens": {15 * ANSWERED}}}}}')
        again = rig(config, folder, backend)
        assert again.wait(60) == BudgetExhaustedError.exit_code, (tmp_path / "log").read_text()
        assert len(server.requests) == asked
    assert ledger_of(folder).by_role() == {"policy": USED}


def test_a_refusal_that_ends_the_run_leaves_nothing_answered_out_of_the_books(tmp_path: Path) -> None:
    def reply(_: object, number: int) -> replies.Reply:
        if number < ANSWERED:
            return replies.answer()
        # Told to one of six; the others are still waiting when it ends them.
        return replies.wrong_key() if number == ANSWERED + 5 else replies.hang()

    with FaultServer(reply) as server:
        plan = two_tasks(server).model_copy(update={"limits": Limits(max_steps=40)})
        with (
            RunStore.open(tmp_path, config=plan.model_dump(mode="json"), command="rig") as store,
            PoolEngine(workers=1, episodes_per_worker=6, retries=1) as engine,
            pytest.raises(ProviderRefusedError),
        ):
            carry_out(plan, store=store, engine=engine, unsafe_hooks=True)
    assert ledger_of(tmp_path).total == USED


def test_an_engine_that_is_aborted_tells_once_what_was_used() -> None:
    with falling_silent() as server, PoolEngine(workers=1, episodes_per_worker=2, retries=0) as engine:
        for index in range(4):  # two of them are waiting
            engine.submit(asking(server, index))
        assert eventually(lambda: len(server.requests) == ANSWERED + 2, 60)
        assert total(engine) == USED
        assert engine.in_flight == 0
        assert total(engine) == Usage()
        engine.submit(asking(server))
        assert eventually(lambda: len(server.requests) == ANSWERED + 3, 60)
        assert total(engine) == Usage()


def total(engine: Engine) -> Usage:
    return sum((used for _, used in engine.abort()), Usage())


def test_an_engine_that_plays_nothing_has_nothing_to_tell() -> None:
    for backend in ("inline", "pool"):
        with make_engine(backend) as engine:
            assert list(engine.abort()) == []


def test_what_was_used_beside_an_environment_that_hangs_is_charged_to_the_next_attempt(tmp_path: Path) -> None:
    hanging = job(
        kitchen(how="hang", once=str(tmp_path / "hung"), seconds=60.0),
        PolicySpec(id="rollouts.hostile:Naps", options={"seconds": 2.0}),
        step_seconds=1.0,
        index=1,
    )
    with (
        FaultServer(lambda _, __: replies.answer(delay=0.2)) as server,
        PoolEngine(workers=1, episodes_per_worker=2, retries=1) as engine,
    ):
        (played,) = [episode for one, episode in engine.run([hanging, asking(server)]) if one.index == 0]
    assert played.attempt == 1
    assert played.usage.calls == 12
    assert played.wasted.calls >= 1
    # The one that was on its way when the worker was ended is nobody's.
    assert len(server.requests) - 1 <= played.usage.calls + played.wasted.calls <= len(server.requests)
