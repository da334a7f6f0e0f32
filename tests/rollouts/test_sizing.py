"""How many at once: pure arithmetic, and what is read of the machine and of the work."""

from __future__ import annotations

import os
import resource
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from envharness.core.policy import PolicySpec
from envharness.core.spec import StackSpec
from envharness.llm.config import Endpoint
from envharness.rollouts.backends.memory import LOOK_SECONDS, MemoryWatch
from envharness.rollouts.demand import COMPUTES, Demands, demand_for, kinds_of
from envharness.rollouts.machine import files_allowed, free_memory, resident_memory, usable_cores
from envharness.rollouts.sizing import (
    EPISODE_BYTES,
    EPISODE_FILES,
    SPARE_FILES,
    WARM_BYTES,
    WORKER_BYTES,
    Machine,
    episode_bytes,
    memory_holds,
    places,
    seats,
)
from rollouts.hostile import job, script

GIB = 1 << 30
TWO_CORES = Machine(cores=2)


def endpoints(*concurrency: int, requests_per_minute: int | None = None) -> list[Endpoint]:
    return [
        Endpoint(base_url=f"http://host-{number}", concurrency=places, requests_per_minute=requests_per_minute)
        for number, places in enumerate(concurrency)
    ]


# --- workers ---------------------------------------------------------------------------------------------------------


def test_workers_are_as_many_as_cores_if_they_fit_into_the_memory() -> None:
    assert seats("auto", Machine(cores=8)) == 8
    assert seats("auto", Machine(cores=8, memory=64 * GIB)) == 8
    assert seats("auto", Machine(cores=64, memory=GIB)) == 6
    assert seats("auto", Machine(cores=4, memory=0)) == 1
    assert seats(5, Machine(cores=1, memory=0)) == 5


@given(cores=st.integers(1, 256), memory=st.none() | st.integers(0, 1 << 42))
def test_workers_are_never_none_and_never_more_than_cores_or_memory(cores: int, memory: int | None) -> None:
    number = seats("auto", Machine(cores=cores, memory=memory))
    assert 1 <= number <= cores
    assert memory is None or number == 1 or number * WORKER_BYTES <= memory


# --- places ----------------------------------------------------------------------------------------------------------


def test_a_policy_that_computes_plays_one_episode_a_worker() -> None:
    assert places(COMPUTES, 4, "auto", TWO_CORES) == [1, 1, 1, 1]


def test_a_policy_that_waits_fills_its_endpoints() -> None:
    assert places(demand_for(endpoints(1000), 12.0), 2, "auto", TWO_CORES) == [500, 500]
    assert places(demand_for(endpoints(16, 5), 12.0), 2, "auto", TWO_CORES) == [11, 10]


def test_an_endpoint_with_few_places_is_asked_by_few_workers() -> None:
    assert places(demand_for(endpoints(3), 12.0), 8, "auto", TWO_CORES) == [1, 1, 1, 0, 0, 0, 0, 0]


def test_a_limit_by_the_minute_bounds_how_many_can_be_kept_in_time() -> None:
    # 60 turns a minute at 12 s a turn: twelve episodes each get a turn in time.
    asked = demand_for(endpoints(100, requests_per_minute=60), 12.0)
    assert places(asked, 2, "auto", TWO_CORES) == [6, 6]
    one_is_free = [*endpoints(100, requests_per_minute=60), *endpoints(100)]
    assert places(demand_for(one_is_free, 12.0), 2, "auto", TWO_CORES) == [100, 100]


def test_numbers_set_by_hand_hold() -> None:
    for demand in (COMPUTES, demand_for(endpoints(3, requests_per_minute=1), 12.0)):
        assert places(demand, 2, 7, Machine(cores=1, memory=0, files=10)) == [7, 7]


@given(
    concurrency=st.lists(st.integers(1, 2000), min_size=1, max_size=4),
    requests=st.none() | st.integers(1, 10_000),
    turn_seconds=st.floats(0.01, 1e6),
    count=st.integers(1, 64),
    files=st.none() | st.integers(0, 10_000),
)
def test_places_keep_every_bound_and_leave_nobody_without(
    concurrency: list[int], requests: int | None, turn_seconds: float, count: int, files: int | None
) -> None:
    demand = demand_for(endpoints(*concurrency, requests_per_minute=requests), turn_seconds)
    found = places(demand, count, "auto", Machine(cores=count, files=files))
    assert len(found) == count
    assert found[0] >= 1
    assert min(found) >= 0
    assert found == sorted(found, reverse=True)
    assert sum(found) <= sum(concurrency)
    if files is not None:
        assert max(found) == 1 or max(found) * EPISODE_FILES + SPARE_FILES <= files
    if requests is not None:
        in_time = requests * len(concurrency) / 60 * turn_seconds
        assert sum(found) == 1 or sum(found) <= in_time
    if requests is None and files is None:
        assert sum(found) == sum(concurrency)


# --- memory ----------------------------------------------------------------------------------------------------------


@given(room=st.integers(0, 1 << 40), each=st.integers(1, 1 << 30), playing=st.integers(0, 5000), grown=st.floats(0, 1))
def test_what_more_is_begun_fits_once_all_have_grown(room: int, each: int, playing: int, grown: float) -> None:
    used = int(playing * each * grown)
    more = memory_holds(room, each, playing, used)
    assert more is not None
    assert more >= 0
    assert more == 0 or (playing + more) * each <= room + used
    larger = memory_holds(room + each, each, playing, used)
    assert larger is not None
    assert larger >= more


def test_without_a_bound_everything_fits() -> None:
    assert memory_holds(None, 1, 10**9, 0) is None


def test_an_episode_is_what_the_process_grew_by_beside_what_is_loaded_once() -> None:
    assert episode_bytes(WARM_BYTES + 900 * 2**20, 100 * 2**20, 400) == 2 * 2**20
    assert episode_bytes(WARM_BYTES, 100 * 2**20, 400) == 128 * 2**10


class FakeWorker:
    pid = 7
    base_bytes = 100 << 20
    most_at_once = 0
    playing = 0

    def play(self, number: int) -> None:
        self.playing = number
        self.most_at_once = max(self.most_at_once, number)


def test_episodes_are_held_back_where_the_free_memory_ends_and_go_on_when_there_is_more() -> None:
    free, now, worker = [100 << 20], [0.0], FakeWorker()
    watch = MemoryWatch(1 << 40, free=lambda: free[0], resident=lambda _: worker.base_bytes, clock=lambda: now[0])
    begun = 0
    watch.look([worker])
    while watch.has_room(worker):
        begun += 1
        worker.play(begun)
        watch.begun()
    assert begun == 80 * 2**20 // EPISODE_BYTES
    free[0] = 500 << 20
    watch.look([worker])
    assert not watch.has_room(worker)  # it has looked a moment ago
    now[0] += LOOK_SECONDS
    watch.look([worker])
    assert watch.has_room(worker)
    free[0] = 0
    now[0] += LOOK_SECONDS
    watch.look([worker])
    assert not watch.has_room(worker)
    worker.playing = 0
    assert watch.has_room(worker)  # or nothing would ever be played


def test_a_worker_is_not_filled_until_it_would_have_to_retire() -> None:
    now, worker, resident = [0.0], FakeWorker(), [100 << 20]
    watch = MemoryWatch(1 << 30, free=lambda: None, resident=lambda _: resident[0], clock=lambda: now[0])
    watch.look([worker])
    most = ((1 << 30) - worker.base_bytes - WARM_BYTES) // EPISODE_BYTES
    worker.play(most - 1)
    assert watch.has_room(worker)
    worker.play(most)
    assert not watch.has_room(worker)
    resident[0] = worker.base_bytes + WARM_BYTES + most * (1 << 20)  # an episode takes one MiB, as it turns out
    now[0] += LOOK_SECONDS
    watch.look([worker])
    assert watch.episode_bytes == 1 << 20
    assert watch.has_room(worker)


# --- the work --------------------------------------------------------------------------------------------------------


def llm(**model: object) -> PolicySpec:
    config = {"model": "m", "endpoints": [{"base_url": "http://a", "concurrency": 40}], **model}
    return PolicySpec(id="llm", options={"model": config})  # pyright: ignore[reportArgumentType]  JSON, all of it


def test_a_language_model_waits_for_its_endpoints() -> None:
    demand = Demands().of(job(policy=llm(), episode_seconds=100, max_steps=10))
    assert (demand.places, demand.endpoints, demand.turn_seconds) == ((40,), ("http://a",), 10.0)


@pytest.mark.parametrize(
    "policy",
    [
        script(),
        PolicySpec(id="solver"),
        PolicySpec(id="no such policy"),
        PolicySpec(id="llm", options={"model": {"client": "scripted", "answers": ["a"], "model": "m"}}),
        PolicySpec(id="llm", options={"model": {"client": "recorded", "recording": "file"}}),
        PolicySpec(id="llm", options={"colour": "red"}),
    ],
    ids=str,
)
def test_what_asks_nobody_computes(policy: PolicySpec) -> None:
    assert Demands().of(job(policy=policy)) == COMPUTES


def test_a_recording_waits_for_the_model_that_it_records() -> None:
    source = {"model": "m", "endpoints": [{"base_url": "http://a", "concurrency": 3}]}
    assert Demands().of(job(policy=llm(client="recorded", recording="f", record_from=source, endpoints=[]))).waits


def test_a_litellm_model_without_endpoints_has_the_usual_places() -> None:
    assert Demands().of(job(policy=llm(client="litellm", endpoints=[]))).places == (16,)


def test_kinds_are_told_apart_by_what_may_choose_a_backend() -> None:
    def kinds(**options: object) -> object:
        return kinds_of(job(StackSpec.environment("web", **options).wrap("stage", actions=[])))

    assert kinds(task="1", numbers=[1], level=3) == kinds(task="2", numbers=[2], level=4)
    assert kinds(task="1", url="http://a") != kinds(task="1", url="http://b")


# --- the machine -----------------------------------------------------------------------------------------------------


def test_the_machine_has_something() -> None:
    assert 1 <= usable_cores() <= (os.cpu_count() or 1)
    assert files_allowed() <= max(resource.getrlimit(resource.RLIMIT_NOFILE)[1], 1 << 16)
    free, own = free_memory(), resident_memory(os.getpid())
    assert free is not None
    assert free > 0
    assert own is not None
    assert own > 1 << 20
    assert resident_memory(2**22 + 1) is None


def fake_system(folder: Path, groups: str, **files: str) -> tuple[Path, Path]:
    proc, cgroups = folder / "proc", folder / "cgroup"
    (proc / "self").mkdir(parents=True)
    (proc / "self" / "cgroup").write_text(groups)
    (proc / "meminfo").write_text("MemTotal: 900 kB\nMemAvailable:    800 kB\n")
    for name, text in files.items():
        path = cgroups / name.replace("__", "/").replace("_dot_", ".")
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    return proc, cgroups


def test_a_quota_of_processors_counts_rounded_up(tmp_path: Path) -> None:
    for number, (groups, files, quota) in enumerate(
        [
            ("0::/a/b\n", {"a__b__cpu_dot_max": "50000 100000\n"}, 1),
            ("0::/a/b\n", {"a__cpu_dot_max": "100000 100000", "a__b__cpu_dot_max": "max 100000"}, 1),
            ("0::/not/here\n", {"cpu_dot_max": "100000 100000"}, 1),
            (
                "4:cpu,cpuacct:/x\n",
                {"cpu__x__cpu_dot_cfs_quota_us": "90000", "cpu__x__cpu_dot_cfs_period_us": "100000"},
                1,
            ),
            ("4:cpu:/x\n", {"cpu__x__cpu_dot_cfs_quota_us": "-1", "cpu__x__cpu_dot_cfs_period_us": "100000"}, None),
            ("0::/\n", {"cpu_dot_max": "max 100000"}, None),
        ]
    ):
        proc, cgroups = fake_system(tmp_path / str(number), groups, **files)
        assert usable_cores(proc=proc, cgroups=cgroups) == (quota or len(os.sched_getaffinity(0))), groups


def test_free_memory_is_what_a_cgroup_has_left_where_that_is_less(tmp_path: Path) -> None:
    cases: list[tuple[str, dict[str, str], int]] = [
        ("0::/\n", {}, 800 * 1024),
        ("0::/\n", {"memory_dot_max": "max", "memory_dot_current": "5"}, 800 * 1024),
        ("0::/a\n", {"a__memory_dot_max": "1000", "a__memory_dot_current": "700"}, 300),
        (
            "0::/a\n",
            {
                "a__memory_dot_max": "1000",
                "a__memory_dot_current": "700",
                "a__memory_dot_stat": "anon 1\ninactive_file 50\n",
            },
            350,
        ),
        (
            "4:memory:/x\n",
            {"memory__memory_dot_limit_in_bytes": "1000", "memory__memory_dot_usage_in_bytes": "1200"},
            0,
        ),
    ]
    for number, (groups, files, free) in enumerate(cases):
        proc, cgroups = fake_system(tmp_path / str(number), groups, **files)
        assert free_memory(proc=proc, cgroups=cgroups) == free, (groups, files)
    assert free_memory(proc=tmp_path / "nowhere", cgroups=tmp_path / "nowhere") is None
