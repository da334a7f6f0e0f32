"""The Ray engine on clusters that die: a node, the head and the driver are killed in the middle of a run."""

from __future__ import annotations

import importlib.util
import os
import signal
import socket
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

import rollouts.ray_token  # noqa: F401  # pyright: ignore[reportUnusedImport]  before Ray looks for it
from envharness.core.errors import ConfigError, MachineryError
from envharness.core.labels import labelled_processes
from envharness.core.policy import PolicySpec
from envharness.core.trace import Episode
from envharness.rollouts.backends.ray import RayEngine
from envharness.rollouts.engine import make_engine
from envharness.rollouts.job import RolloutJob
from presence import absent
from rollouts.canonical import canonical
from rollouts.hostile import job, kitchen
from rollouts.processes import command_of, descendants, eventually

pytestmark = [pytest.mark.slow, pytest.mark.xdist_group("ray")]

TESTS = Path(__file__).parents[1]


@pytest.fixture(autouse=True)
def ray_is_there() -> None:
    if importlib.util.find_spec("ray") is None:
        raise absent("Ray is not installed: pip install 'envharness[ray]'")


def start_node(temporary: Path, *options: str) -> subprocess.Popen[bytes]:
    """A node of a cluster, in a process group of its own, so that it can be killed as a machine would be."""
    command = [sys.executable, "-m", "ray.scripts.scripts", "start", "--block", "--num-cpus=1", *options]
    with (temporary / "out").open("ab") as output:
        return subprocess.Popen(
            [
                *command,
                "--object-store-memory=100000000",
                "--node-ip-address=127.0.0.1",
                *(["--disable-usage-stats"] if "--head" in options else []),
            ],
            start_new_session=True,
            stdout=output,
            stderr=subprocess.STDOUT,
            env={**os.environ, "PYTHONPATH": str(TESTS)},
        )


def kill_node(node: subprocess.Popen[bytes]) -> None:
    """Kill a node with all it started, at once."""
    for pid in [*descendants(node.pid), node.pid]:
        try:
            os.kill(pid, signal.SIGKILL)
        except ProcessLookupError:
            continue
    node.wait()


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]


PORT = free_port()
ADDRESS = f"127.0.0.1:{PORT}"


@pytest.fixture
def nodes(tmp_path: Path) -> Iterator[list[subprocess.Popen[bytes]]]:
    """A head and a second node, each with one processor. Newer versions of Ray want a token."""
    started = [start_node(tmp_path, "--head", f"--port={PORT}", "--include-dashboard=false")]
    try:
        assert eventually(lambda: b"Ray runtime started" in (tmp_path / "out").read_bytes(), 60)
        started.append(start_node(tmp_path, f"--address={ADDRESS}"))
        assert eventually(lambda: (tmp_path / "out").read_bytes().count(b"Ray runtime started") == 2, 60)
        yield started
    finally:
        for node in started:
            kill_node(node)


def test_a_node_that_is_lost_in_mid_run(nodes: list[subprocess.Popen[bytes]]) -> None:
    naps = PolicySpec(id="rollouts.hostile:Naps", options={"seconds": 0.4})
    jobs = [job(kitchen(how="nothing"), naps, index=index) for index in range(40)]
    at_once = PolicySpec(id="rollouts.hostile:Naps", options={"seconds": 0.0})
    with make_engine("inline") as inline:
        quick = [job(kitchen(how="nothing"), at_once, index=i) for i in range(40)]
        expected = canonical(list(inline.run(quick)))
    with RayEngine(address=ADDRESS, retries=2, episodes_per_worker=2) as engine:
        results: list[tuple[RolloutJob, Episode]] = []
        for result in engine.run(jobs):
            results.append(result)
            if len(results) == 12:
                assert len({episode.worker for _, episode in results}) == 2, "one actor on each node"
                kill_node(nodes[1])
        assert canonical(results) == expected
        assert max(episode.attempt for _, episode in results) == 2, "the lost node cost an attempt"


def test_where_no_cluster_answers_it_says_so() -> None:
    with pytest.raises(MachineryError, match=r"no Ray cluster answers at '127.0.0.1:9'"):
        make_engine("ray", ray_address="127.0.0.1:9")
    with pytest.raises(ConfigError, match="must be the head's host:port"):
        make_engine("ray", ray_address="ray://127.0.0.1:9")


DRIVER = """
from envharness.core.policy import PolicySpec
from envharness.rollouts.engine import make_engine
from rollouts.hostile import job, kitchen
naps = PolicySpec(id="rollouts.hostile:Naps", options={"seconds": 60.0})
with make_engine("ray", workers=1) as engine:
    engine.submit(job())
    engine.next_result()
    engine.submit(job(policy=naps))
    print("playing", flush=True)
    engine.next_result()
"""


def test_a_killed_driver_leaves_nothing() -> None:
    driver = subprocess.Popen(
        [sys.executable, "-c", DRIVER], stdout=subprocess.PIPE, env={**os.environ, "PYTHONPATH": str(TESTS)}
    )
    assert driver.stdout is not None
    with driver.stdout as output:
        assert output.readline() == b"playing\n"
        left = descendants(driver.pid)
        assert any(label.driver == driver.pid for _, _, label in labelled_processes())
        driver.kill()
        driver.wait()
    assert eventually(lambda: not any(command_of(pid) for pid in left), 30), [command_of(pid) for pid in left]
