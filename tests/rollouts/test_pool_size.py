"""The pool that fits the work: how many workers and episodes there are at once, of which kind, and what holds them back."""

from __future__ import annotations

import os
from collections import Counter
from pathlib import Path
from time import monotonic, sleep

import pytest

from envharness.core.policy import PolicySpec
from envharness.core.spec import StackSpec
from envharness.rollouts.backends import supervisor
from envharness.rollouts.backends.pool import PoolEngine
from envharness.rollouts.engine import make_engine
from envharness.rollouts.job import RolloutJob
from envharness.rollouts.sizing import Count, Machine
from rollouts.hostile import job, kitchen, script
from rollouts.processes import eventually, workers_of

pytestmark = pytest.mark.slow
GIB = 1 << 30


def auto(cores: int = 2, *, episodes_per_worker: Count = "auto", workers: Count = "auto") -> PoolEngine:
    machine = Machine(cores=cores, memory=64 * GIB, files=10_000)
    return PoolEngine(workers=workers, episodes_per_worker=episodes_per_worker, retries=0, machine=machine)


def waits(seconds: float = 0.5, **options: object) -> PolicySpec:
    return PolicySpec(id="rollouts.hostile:Waits", options={"seconds": seconds, "concurrency": 20, **options})  # pyright: ignore[reportArgumentType]  JSON, all of it


def test_no_more_workers_than_jobs() -> None:
    before = workers_of(os.getpid())
    with auto(cores=6) as engine:
        assert len(list(engine.run([job(index=index) for index in range(2)]))) == 2
        assert len(workers_of(os.getpid()) - before) <= 2


def test_a_policy_that_computes_has_one_episode_a_worker_and_a_worker_a_core() -> None:
    naps = PolicySpec(id="rollouts.hostile:Naps", options={"seconds": 0.3})
    with auto() as engine:
        assert engine.capacity == 4
        list(engine.run([job(index=8), job(index=9)]))
        began = monotonic()
        results = list(engine.run([job(policy=naps, index=index) for index in range(6)]))
        assert monotonic() - began > 0.8
    assert len({episode.worker for _, episode in results}) == 2


def test_a_policy_that_waits_has_as_many_episodes_as_its_endpoints_take_and_no_more(tmp_path: Path) -> None:
    policy = waits(0.4, place=str(tmp_path), concurrency=5, number=2)
    with auto() as engine:
        results = list(engine.run([job(policy=policy, index=index) for index in range(40)]))
        assert engine.capacity == 20
    at_once = [int(episode.steps[0].text) for _, episode in results]
    assert max(at_once) <= 10
    assert max(at_once) >= 8  # the second worker may have started late, or the first ones ended early
    shares = Counter(episode.worker for _, episode in results)
    assert len(shares) == 2


def test_an_endpoint_that_takes_one_call_is_asked_by_one_worker(tmp_path: Path) -> None:
    policy = waits(0.05, place=str(tmp_path), concurrency=1)
    with auto(cores=3) as engine:
        results = list(engine.run([job(policy=policy, index=index) for index in range(8)]))
    assert {int(episode.steps[0].text) for _, episode in results} == {1}
    assert len({episode.worker for _, episode in results}) == 1


def test_few_episodes_that_wait_share_one_worker() -> None:
    with auto() as engine:
        results = list(engine.run([job(policy=waits(0.2), index=index) for index in range(6)]))
    assert {episode.worker for _, episode in results} == {"worker-1"}


def test_work_of_both_kinds_goes_on_side_by_side() -> None:
    mixed = [job(policy=waits(1.0) if index % 2 else script(), index=index) for index in range(40)]
    with auto() as engine:
        list(engine.run([job(index=index) for index in range(4)]))
        began = monotonic()
        order = [played.index for played, episode in engine.run(mixed) if episode.success]
        seconds = monotonic() - began
    assert sorted(order) == list(range(40))
    assert seconds < 10 * 1.0  # one after another, those that wait would take twenty
    # None of those that compute stands behind those that wait, which are begun at once.
    assert all(index % 2 == 0 for index in order[:10])


def test_a_number_set_by_hand_holds_for_every_kind(tmp_path: Path) -> None:
    naps = PolicySpec(id="rollouts.hostile:Naps", options={"seconds": 0.5})
    with auto(workers=1, episodes_per_worker=6) as engine:
        assert engine.capacity == 12
        list(engine.run([job()]))
        began = monotonic()
        list(engine.run([job(policy=naps, index=index) for index in range(6)]))
        assert monotonic() - began < 2.5
        policy = waits(0.3, place=str(tmp_path), concurrency=2)
        results = list(engine.run([job(policy=policy, index=index) for index in range(12)]))
    assert max(int(episode.steps[0].text) for _, episode in results) > 2


@pytest.mark.parametrize("episodes_per_worker", ["auto", 3])
def test_a_shared_backend_is_used_by_one_episode_at_a_time(tmp_path: Path, episodes_per_worker: Count) -> None:
    shared = StackSpec.environment("rollouts.hostile:Shared", place=str(tmp_path))
    stacks = [shared, shared.wrap("stage", actions=[{"name": "take"}])]
    jobs = [job(stacks[index % 2], waits(0.05) if index % 3 else script(), index=index) for index in range(10)]
    others = [job(index=index) for index in range(10, 16)]
    with auto(episodes_per_worker=episodes_per_worker) as engine:
        results = {played.index: episode for played, episode in engine.run([*jobs, *others])}
        # The next run begins only when what was cancelled has let go.
        engine.submit(job(shared, script(how="waits"), index=20))
        assert eventually((tmp_path / "in-use").exists)
        engine.cancel()
        ((_, after),) = engine.run([job(shared, index=21)])
    assert [episode.outcome.detail for episode in results.values() if not episode.valid] == []
    assert sorted(results) == list(range(16))
    assert after.valid, after.outcome


def test_an_environment_that_shares_nothing_is_not_held_back() -> None:
    naps = PolicySpec(id="rollouts.hostile:Naps", options={"seconds": 0.6})
    with auto() as engine:
        list(engine.run([job(index=8), job(index=9)]))
        began = monotonic()
        list(engine.run([job(kitchen(how="nothing"), naps, index=index) for index in range(2)]))
        assert monotonic() - began < 1.1


def test_an_environment_that_cannot_be_built_fails_its_own_episodes_only() -> None:
    broken = [job(StackSpec.environment("no such thing"), index=index) for index in range(4)]
    with auto() as engine:
        results = {played.index: episode for played, episode in engine.run([*broken, job(index=9)])}
    assert results[9].success
    assert [results[index].outcome.reason for index in range(4)] == ["environment_error"] * 4


def test_results_that_nobody_takes_hold_the_workers_back(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(supervisor, "MAX_UNTAKEN", 5)
    with auto() as engine:
        for index in range(60):
            engine.submit(job(index=index))
        taken = [engine.next_result()]
        sleep(2.0)
        played = engine._supervisor._played.qsize()  # pyright: ignore[reportPrivateUsage]
        assert 5 <= played <= 5 + 1 + 2  # those that were played when the limit was reached come on top
        while (result := engine.next_result()) is not None:
            taken.append(result)
    assert sorted(played.index for result in taken if result for played in [result[0]]) == list(range(60))


def test_large_results_hold_the_workers_back_sooner(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(supervisor, "MAX_UNTAKEN_BYTES", 1)
    with auto() as engine:
        jobs: list[RolloutJob] = [job(index=index) for index in range(12)]
        for one in jobs:
            engine.submit(one)
        sleep(2.5)
        assert 1 <= engine._supervisor._played.qsize() <= 3  # pyright: ignore[reportPrivateUsage]
        seen = 0
        while engine.next_result() is not None:
            seen += 1
    assert seen == 12


@pytest.mark.parametrize("backend", ["inline", "pool"])
def test_engines_fit_themselves_unless_told_otherwise(backend: str) -> None:
    with make_engine(backend) as engine:  # type: ignore[arg-type]  # pyright: ignore[reportArgumentType]
        assert len(list(engine.run([job(index=index) for index in range(3)]))) == 3
