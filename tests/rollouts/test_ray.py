"""The Ray engine on a cluster of its own: actors that die, hang and are cancelled."""

from __future__ import annotations

import importlib
import importlib.util
import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

import rollouts.ray_token  # noqa: F401  # pyright: ignore[reportUnusedImport]  before Ray looks for it
from envharness.core.policy import PolicySpec
from envharness.core.registry import register
from envharness.core.spec import StackSpec
from envharness.core.trace import Episode
from envharness.rollouts.backends.ray import LARGE_BYTES, RayEngine
from envharness.rollouts.engine import make_engine
from envharness.rollouts.job import RolloutJob
from presence import absent
from rollouts.canonical import canonical
from rollouts.hostile import WIN, job, kitchen, script
from rollouts.processes import descendants, eventually

pytestmark = [pytest.mark.slow, pytest.mark.xdist_group("ray")]

TESTS = Path(__file__).parents[1]


@pytest.fixture(autouse=True)
def ray_is_there() -> None:
    if importlib.util.find_spec("ray") is None:
        raise absent("Ray is not installed: pip install 'envharness[ray]'")


@pytest.fixture(scope="module")
def engine() -> Iterator[RayEngine]:
    """One engine with a cluster of its own, which several tests share: to start one takes seconds."""
    if importlib.util.find_spec("ray") is None:
        raise absent("Ray is not installed: pip install 'envharness[ray]'")
    handler = signal.getsignal(signal.SIGTERM)
    before = descendants(os.getpid())
    register("environment", "kitchen-known-to-the-driver", "kitchen:Kitchen")
    with RayEngine(workers=2, retries=1, episodes_per_worker=3, grace_seconds=1.0) as engine:
        assert signal.getsignal(signal.SIGTERM) is handler
        yield engine
    assert not importlib.import_module("ray").is_initialized()
    assert signal.getsignal(signal.SIGTERM) is handler
    assert eventually(lambda: not descendants(os.getpid()) - before), "Ray left processes"


def only(engine: RayEngine, job: RolloutJob) -> Episode:
    ((_, episode),) = engine.run([job])
    return episode


def toy_jobs(count: int) -> list[RolloutJob]:
    stack = StackSpec.environment("toy24", task="easy-0000")
    policy = PolicySpec(id="solver")
    return [job(stack, policy, index=index) for index in range(count)]


def test_the_content_is_that_of_inline(engine: RayEngine) -> None:
    jobs = toy_jobs(12)
    with make_engine("inline") as inline:
        expected = canonical(list(inline.run(jobs)))
    assert canonical(list(engine.run(jobs))) == expected


def test_an_actor_orders_sets_and_finds_ids_as_the_driver_does(engine: RayEngine) -> None:
    hashed = {only(engine, job(policy=script(how="hash"))).steps[0].model_dump_json(include={"text"}) for _ in range(2)}
    expected = subprocess.run(
        [sys.executable, "-c", "print(hash('mug'))"],
        env={**os.environ, "PYTHONHASHSEED": "0"}, capture_output=True, text=True, check=True,
    ).stdout.strip()  # fmt: skip
    assert len(hashed) == 1
    assert expected in hashed.pop()
    assert only(engine, job(StackSpec.environment("kitchen-known-to-the-driver"))).success


def test_an_actor_that_dies_costs_an_attempt(engine: RayEngine, tmp_path: Path) -> None:
    again = only(engine, job(kitchen(how="kill", once=str(tmp_path / "seen"))))
    assert again.success
    assert again.attempt == 2
    dead = only(engine, job(kitchen(how="exit")))
    assert (dead.outcome.kind, dead.outcome.reason, dead.attempt) == ("invalid", "worker_died", 2)
    assert "the actor ended in mid-episode" in dead.outcome.detail


def test_a_hanging_environment_ends_its_actor_and_costs_its_neighbours_nothing(engine: RayEngine) -> None:
    jobs = [job(kitchen(how="hang"), index=0, step_seconds=0.3), *(job(index=index) for index in range(1, 5))]
    results = {played.index: episode for played, episode in engine.run(jobs)}
    assert results[0].outcome.reason == "time_limit"
    assert all(results[index].success and results[index].attempt == 1 for index in range(1, 5))


def test_a_call_that_lets_nobody_else_run_is_ended_by_the_driver(engine: RayEngine) -> None:
    attacked = job(kitchen(how="hang holding the GIL"), episode_seconds=0.5)
    began = time.monotonic()
    assert only(engine, attacked).outcome.reason == "time_limit"
    assert time.monotonic() - began < 25


def test_what_is_cancelled_never_comes_back_and_the_engine_goes_on(engine: RayEngine) -> None:
    naps = PolicySpec(id="rollouts.hostile:Naps", options={"seconds": 30.0})
    for index in range(3):
        engine.submit(job(policy=naps, index=100 + index))
    assert engine.in_flight == 3
    assert engine.next_result(timeout=1.0) is None
    engine.cancel()
    assert engine.in_flight == 0
    assert engine.next_result(timeout=0.1) is None
    assert only(engine, job(index=7)).index == 7


def test_a_large_stack_is_put_once(engine: RayEngine) -> None:
    actions = [*WIN, *({"name": "look", "kwargs": {"note": "x" * 1000}} for _ in range(LARGE_BYTES // 1000))]
    jobs = [job(policy=script(actions), index=index) for index in range(4)]
    assert all(episode.success for _, episode in engine.run(jobs))
    assert len(engine._put) == 1


def test_what_was_not_begun_is_withdrawn(engine: RayEngine) -> None:
    naps = PolicySpec(id="rollouts.hostile:Naps", options={"seconds": 0.5})
    for index in range(20):
        engine.submit(job(policy=naps, index=index))
    engine.withdraw()
    begun = engine.in_flight
    assert begun < 20
    played = 0
    while engine.next_result() is not None:
        played += 1
    assert played == begun
