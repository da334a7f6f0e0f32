"""How many episodes are played at once where the policy mostly waits for its model: in one process, and in two."""

from __future__ import annotations

import os
import random
import urllib.request
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from time import perf_counter, process_time

from benchmarks import Figure, at_least, at_most
from benchmarks.model_server import model_server
from envharness.core.policy import PolicySpec
from envharness.core.spec import StackSpec
from envharness.core.types import JsonDict
from envharness.rollouts.engine import make_engine
from envharness.rollouts.job import Limits, RolloutJob

LATENCY = 1.0
TURNS = 30
"""Turns of an episode. An ideal episode takes as many seconds."""


def measure() -> dict[str, Figure]:
    """Play 500 episodes at once in one process, and 1,000 in two, with the policy `llm`, against a server of ours.

    Share of ideal: turns a second, divided by (episodes at once / latency). `batch` is all episodes of 30 turns at
    once, from the first job to the last result, their start and end included; `steady` is a stream of twice as many
    jobs as places, of 10 to 30 turns, from when the first has ended until the last begins. Workers are warm: what
    starting them takes is a figure of its own. The server shares the processors. Memory is the sum of what the driver
    and all processes below it hold, the server aside.
    """
    return _one_process() | _two_processes()


def _one_process() -> dict[str, Figure]:
    with model_server(latency=LATENCY, call="reset_numbers") as url:
        run = _Run(url, episodes=500, workers=1)
        batch = run.batch()
    return {
        "concurrency_share_of_ideal": at_least(batch, "", 0.8),
        # What the share asks of one core; steadier than the share itself where others use the machine.
        "concurrency_worker_cpu_ms_a_turn": at_most(run.worker_cpu / run.turns * 1e3, "ms", 1e3 / (0.8 * 500)),
        "concurrency_memory": at_most(run.peak / 2**30, "GiB", 1.0),
    }


def _two_processes() -> dict[str, Figure]:
    with model_server(latency=LATENCY, call="reset_numbers") as url:
        run, stream = _Run(url, episodes=1000, workers=2), _Run(url, episodes=1000, workers=2)
        batch, steady = run.batch(), stream.steady()
    return {
        "concurrency_1000_share_of_ideal_batch": at_least(batch, "", 0.9),
        "concurrency_1000_share_of_ideal_steady": at_least(steady, "", 0.9),
        "concurrency_1000_worker_cpu_ms_a_turn": Figure(run.worker_cpu / run.turns * 1e3, "ms"),
        # What the share asks of two cores, the server's part included; steadier than the share itself.
        "concurrency_1000_cpu_ms_a_turn_in_all": at_most(run.all_cpu / run.turns * 1e3, "ms", 2e3 / (0.9 * 1000)),
        "concurrency_1000_driver_cpu_ms_an_episode": Figure(run.driver_cpu / run.episodes * 1e3, "ms"),
        "concurrency_1000_start_of_workers": Figure(run.start, "s"),
        "concurrency_1000_memory": at_most(max(run.peak, stream.peak) / 2**30, "GiB", 1.5),
    }


@dataclass
class _Run:
    """One engine, and what was measured of it."""

    url: str
    episodes: int
    workers: int
    turns: int = 0
    start: float = 0.0
    """Seconds until every worker has played something."""
    worker_cpu: float = 0.0
    driver_cpu: float = 0.0
    all_cpu: float = 0.0
    """With the server's."""
    seconds: float = 0.0
    peak: int = 0
    """Bytes of all processes, the server's aside."""

    def batch(self) -> float:
        """Play all at once; return the share of ideal."""
        for at, _ in self._play([TURNS] * self.episodes):
            self.seconds = at
        return self.turns * LATENCY / self.episodes / self.seconds

    def steady(self) -> float:
        """Play a stream of episodes of uneven length; return the share of ideal while every place is taken."""
        lengths = random.Random(1).choices(range(TURNS // 3, TURNS + 1), k=2 * self.episodes)
        marks: list[tuple[float, int]] = []
        for at, ended in self._play(lengths):
            if ended in {1, self.episodes}:
                marks.append((at, _answered(self.url)))
        (began, first), (ended_at, last) = marks
        return (last - first) * LATENCY / self.episodes / (ended_at - began)

    def _play(self, lengths: list[int]) -> Iterator[tuple[float, int]]:
        """Play episodes of these lengths; yield the time since the first began, and how many have ended."""
        each = self.episodes // self.workers
        began = perf_counter()
        # The number of episodes is the engine's own finding, from the endpoint's places.
        with make_engine("pool", workers=self.workers) as engine:
            # Enough to have every worker started, and warm.
            warm_up = [self._job(number, 1) for number in range(each * (self.workers - 1) + 1)]
            assert len({episode.worker for _, episode in engine.run(warm_up)}) == self.workers
            self.start = perf_counter() - began
            below = _descendants()
            processes = [pid for pid in below if "model_server" not in _command(pid)]
            used, all_used, own = sum(map(_cpu, processes)), sum(map(_cpu, below)), process_time()
            began = perf_counter()
            jobs = (self._job(number, turns) for number, turns in enumerate(lengths))
            self.turns = sum(lengths)
            looked = began
            for ended, (_, episode) in enumerate(engine.run(jobs), 1):
                assert episode.valid, episode.outcome
                assert len(episode.steps) == lengths[episode.index], "an episode ended early"
                now = perf_counter()
                if now - looked > 0.5 or ended == 1:
                    looked, self.peak = now, max(self.peak, sum(map(_resident, [os.getpid(), *processes])))
                yield now - began, ended
            self.worker_cpu, self.driver_cpu = sum(map(_cpu, processes)) - used, process_time() - own
            self.all_cpu = sum(map(_cpu, below)) - all_used + self.driver_cpu

    def _job(self, number: int, turns: int) -> RolloutJob:
        endpoint: JsonDict = {"base_url": self.url, "concurrency": self.episodes}
        return RolloutJob(
            task="easy-0000",
            stack=StackSpec.environment("toy24", task="easy-0000", max_steps=TURNS + 1),
            policy=PolicySpec(id="llm", options={"model": {"model": "m", "endpoints": [endpoint]}}),
            env_seed=0,
            policy_seed=number,
            index=number,
            limits=Limits(max_steps=turns),
        )


def _answered(url: str) -> int:
    """Return how many requests the server has had."""
    with urllib.request.urlopen(url) as response:  # noqa: S310  our own server
        return int(response.read())


def _descendants() -> list[int]:
    """Return the processes below this one."""
    parents: dict[int, int] = {}
    for entry in Path("/proc").glob("[0-9]*/stat"):
        with suppress(OSError):
            parents[int(entry.parent.name)] = int(entry.read_text().rpartition(")")[2].split()[1])
    found = {os.getpid()}
    while new := {child for child, parent in parents.items() if parent in found} - found:
        found |= new
    return sorted(found - {os.getpid()})


def _command(pid: int) -> str:
    return Path(f"/proc/{pid}/cmdline").read_text()


def _cpu(pid: int) -> float:
    """Return the processor seconds of a process."""
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def _resident(pid: int) -> int:
    return int(Path(f"/proc/{pid}/statm").read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE")
