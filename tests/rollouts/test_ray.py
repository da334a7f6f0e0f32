"""The Ray engine on real clusters: nodes, actors, heads and drivers that are killed in the middle of a run."""

from __future__ import annotations

import importlib
import importlib.util
import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from envharness.core.errors import ConfigError, MachineryError
from envharness.core.labels import labelled_processes
from envharness.core.policy import PolicySpec
from envharness.core.registry import register
from envharness.core.spec import StackSpec
from envharness.core.trace import Episode
from envharness.rollouts.backends.ray import LARGE_BYTES, RayEngine
from envharness.rollouts.engine import make_engine
from envharness.rollouts.job import RolloutJob
from presence import absent
from rollouts.hostile import WIN, job, kitchen, script
from rollouts.processes import command_of, descendants, eventually

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


def canonical(results: list[tuple[RolloutJob, Episode]]) -> dict[int, dict[str, Any]]:
    """Episodes by index, without what names the machinery that played them."""
    parts = {"attempt", "worker", "seconds", "wasted", "usage"}
    found: dict[int, dict[str, Any]] = {}
    for played, episode in results:
        content = episode.model_dump(mode="json", exclude=parts)
        for step in content["steps"]:
            for timing in [key for key in step if "seconds" in key]:
                del step[timing]
        assert played.index not in found, "an episode came twice"
        found[played.index] = content
    return found


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


def start_node(temporary: Path, *options: str) -> subprocess.Popen[bytes]:
    """A node of a cluster, in a process group of its own, so that it can be killed as a machine would be."""
    command = [sys.executable, "-m", "ray.scripts.scripts", "start", "--block", "--num-cpus=1", *options]
    return subprocess.Popen(
        [*command, "--object-store-memory=100000000", "--node-ip-address=127.0.0.1", "--disable-usage-stats"],
        start_new_session=True, stdout=(temporary / "out").open("ab"), stderr=subprocess.STDOUT,
        env={**os.environ, "RAY_ENABLE_WINDOWS_OR_OSX_CLUSTER": "1", "ENVHARNESS_TEST_NODE": temporary.name},
    )  # fmt: skip


def kill_node(node: subprocess.Popen[bytes]) -> None:
    """Kill a node with all it started, at once."""
    for pid in [*descendants(node.pid), node.pid]:
        try:
            os.kill(pid, signal.SIGKILL)
        except ProcessLookupError:
            continue
    node.wait()


PORT = 6399
ADDRESS = f"127.0.0.1:{PORT}"


@pytest.fixture
def nodes(tmp_path: Path) -> Iterator[list[subprocess.Popen[bytes]]]:
    """A head without room for actors' company, and a second node."""
    started = [start_node(tmp_path, "--head", f"--port={PORT}", "--include-dashboard=false")]
    try:
        assert eventually(lambda: b"Ray runtime started" in (tmp_path / "out").read_bytes(), 60)
        started.append(start_node(tmp_path, f"--address={ADDRESS}"))
        assert eventually(lambda: (tmp_path / "out").read_bytes().count(b"Ray runtime started") == 2, 60)
        yield started
    finally:
        for node in started:
            kill_node(node)


def test_a_node_that_is_lost_in_mid_run_and_then_the_head(nodes: list[subprocess.Popen[bytes]]) -> None:
    naps = PolicySpec(id="rollouts.hostile:Naps", options={"seconds": 0.4})
    jobs = [job(policy=naps, index=index) for index in range(40)]
    with make_engine("inline") as inline:
        quick = [job(policy=PolicySpec(id="rollouts.hostile:Naps", options={"seconds": 0.0}), index=i) for i in range(40)]
        expected = canonical(list(inline.run(quick)))
    with RayEngine(address=ADDRESS, retries=2, episodes_per_worker=2, head_seconds=2.0) as engine:
        results: list[tuple[RolloutJob, Episode]] = []
        for result in engine.run(jobs):
            results.append(result)
            if len(results) == 12:
                assert len({episode.worker for _, episode in results}) == 2, "one actor on each node"
                kill_node(nodes[1])
        assert canonical(results) == expected
        assert max(episode.attempt for _, episode in results) == 2, "the lost node cost an attempt"
        killer = threading.Timer(1.0, kill_node, [nodes[0]])
        killer.start()
        engine.submit(job(policy=PolicySpec(id="rollouts.hostile:Naps", options={"seconds": 60.0})))
        with pytest.raises(MachineryError, match=f"head of the Ray cluster at {ADDRESS} has not answered"):
            while True:
                engine.next_result(timeout=20)
        killer.join()


def test_where_no_cluster_answers_it_says_so() -> None:
    with pytest.raises(MachineryError, match="no Ray cluster answers at '127.0.0.1:9'"):
        make_engine("ray", ray_address="127.0.0.1:9")
    with pytest.raises(ConfigError, match="must be the head's host:port"):
        make_engine("ray", ray_address="ray://127.0.0.1:9")


DRIVER = """
from envharness.core.policy import PolicySpec
from envharness.rollouts.engine import make_engine
from rollouts.hostile import job
naps = PolicySpec(id="rollouts.hostile:Naps", options={"seconds": 60.0})
with make_engine("ray", workers=1) as engine:
    engine.submit(job())
    engine.next_result()
    engine.submit(job(policy=naps))
    print("playing", flush=True)
    engine.next_result()
"""


def test_a_killed_driver_leaves_nothing() -> None:
    driver = subprocess.Popen([sys.executable, "-c", DRIVER], stdout=subprocess.PIPE, env={**os.environ, "PYTHONPATH": str(TESTS)})
    assert driver.stdout is not None
    with driver.stdout as output:
        assert output.readline() == b"playing\n"
        left = descendants(driver.pid)
        assert any(label.driver == driver.pid for _, _, label in labelled_processes())
        driver.kill()
        driver.wait()
    assert eventually(lambda: not any(command_of(pid) for pid in left), 30), [command_of(pid) for pid in left]
