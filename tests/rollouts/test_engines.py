from __future__ import annotations

import json
import os
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Literal

import pytest

from envharness.core.canonical import canonical_json
from envharness.core.registry import register
from envharness.core.spec import StackSpec
from envharness.rollouts.engine import Backend, Engine, make_engine
from envharness.rollouts.job import RolloutJob
from envharness.store.content import episode_content
from rollouts.hostile import WIN, job, kitchen, script
from rollouts.processes import workers_of

BACKENDS: tuple[Backend, ...] = ("inline", "pool")


@pytest.fixture(scope="module", params=BACKENDS)
def engine(request: pytest.FixtureRequest) -> Iterator[Engine]:
    """One engine a backend, shared by the tests that leave it as it was."""
    with make_engine(request.param, workers=2) as engine:
        yield engine


def test_every_job_comes_back_once_with_its_own_episode(engine: Engine) -> None:
    jobs = [job(index=index) for index in range(9)]
    results = list(engine.run(iter(jobs)))
    assert sorted(played.index for played, _ in results) == list(range(9))
    for played, episode in results:
        assert (episode.index, episode.seed, episode.task) == (played.index, played.policy_seed, played.task)
        assert episode.success
        assert episode.worker
    assert engine.in_flight == 0


def test_no_jobs_no_episodes(engine: Engine) -> None:
    assert list(engine.run([])) == []
    assert engine.next_result() is None
    assert engine.next_result(timeout=0.01) is None


def test_streaming_submits_without_waiting(engine: Engine) -> None:
    for index in range(6):
        engine.submit(job(index=index))
    assert engine.in_flight == 6
    seen: set[int] = set()
    while (result := engine.next_result()) is not None:
        seen.add(result[0].index)
    assert seen == set(range(6))


def test_jobs_are_pulled_only_as_there_is_room(engine: Engine) -> None:
    pulled = 0

    def endless() -> Iterator[RolloutJob]:
        nonlocal pulled
        while True:
            pulled += 1
            yield job(index=pulled)

    results = engine.run(endless())
    for yielded in range(1, 8):
        next(results)
        assert pulled <= yielded + engine.capacity
    results.close()  # type: ignore[attr-defined]  # pyright: ignore[reportAttributeAccessIssue]  a generator
    assert engine.in_flight == 0
    assert len(list(engine.run([job()]))) == 1


def test_run_wants_an_idle_engine(engine: Engine) -> None:
    engine.submit(job())
    with pytest.raises(RuntimeError, match="1 submitted jobs are in flight"):
        next(engine.run([job()]))
    engine.cancel()
    assert engine.next_result() is None


@pytest.mark.parametrize("backend", BACKENDS)
@pytest.mark.parametrize("retries", [0, 2])
def test_invalid_episodes_are_retried_a_bounded_number_of_times(backend: Backend, retries: int) -> None:
    with make_engine(backend, workers=1, retries=retries) as engine:
        ((_, episode),) = engine.run([job(policy=script(how="provider"))])
    assert (episode.outcome.kind, episode.outcome.reason) == ("invalid", "policy_error")
    assert episode.attempt == retries + 1


@pytest.mark.parametrize("backend", BACKENDS)
def test_what_works_on_the_second_try_is_a_valid_episode(backend: Backend, tmp_path: Path) -> None:
    with make_engine(backend, workers=1) as engine:
        ((_, episode),) = engine.run([job(kitchen(how="raise", once=str(tmp_path / "seen")))])
    assert episode.success
    assert episode.attempt == 2


@pytest.mark.parametrize("backend", BACKENDS)
def test_a_component_fault_is_not_retried(backend: Backend) -> None:
    with make_engine(backend, workers=1) as engine:
        ((_, episode),) = engine.run([job(kitchen(how="hook fault"))])
    assert (episode.outcome.reason, episode.attempt) == ("component_fault", 1)


@pytest.mark.parametrize("backend", BACKENDS)
def test_a_hanging_step_costs_its_own_episode_only(backend: Backend) -> None:
    jobs = [job(index=0), job(kitchen(how="hang", seconds=1.5), index=1, step_seconds=0.2), job(index=2)]
    with make_engine(backend, workers=1, retries=1) as engine:
        results = {played.index: episode for played, episode in engine.run(jobs)}
    assert (results[1].outcome.reason, results[1].attempt) == ("time_limit", 2)
    assert results[0].success
    assert results[2].success


def test_backends_and_numbers_of_workers_give_the_same_content() -> None:
    plain = kitchen(how="nothing")
    jobs = [
        *(job(plain, index=index) for index in range(4)),
        job(plain, script([None, {"name": "fly"}, *WIN]), index=4),
        job(plain.wrap("stage", actions=WIN[:1]), script(WIN[1:]), index=5),
        job(plain, script([{"name": "take"}] * 9), index=6, max_steps=5),
        job(kitchen(how="hook fault"), index=7),
    ]
    variants: list[tuple[Backend, int, int]] = [("inline", 1, 1), ("pool", 1, 1), ("pool", 2, 1), ("pool", 1, 3)]
    contents: list[dict[int, str]] = []
    for backend, workers, side_by_side in variants:
        with make_engine(backend, workers=workers, episodes_per_worker=side_by_side) as engine:
            contents.append({played.index: _content(episode.model_dump_json()) for played, episode in engine.run(jobs)})
    assert len(contents[0]) == len(jobs)
    assert contents[1:] == [contents[0]] * 3


def _content(episode_json: str) -> str:
    return canonical_json(episode_content(json.loads(episode_json)))


@pytest.mark.parametrize("backend", BACKENDS)
def test_ids_registered_at_run_time_are_known_to_every_backend(backend: Backend) -> None:
    register("environment", "scullery", "kitchen:Kitchen")
    with make_engine(backend, workers=1, retries=0) as engine:
        ((_, episode),) = engine.run([job(StackSpec.environment("scullery"))])
    assert episode.success


@pytest.mark.parametrize("backend", BACKENDS)
def test_closing_twice_is_fine_and_leaves_nothing(backend: Backend) -> None:
    # Those there before may end meanwhile: an earlier test's environment threads do so in their own time.
    threads, workers = set(threading.enumerate()), workers_of(os.getpid())
    engine = make_engine(backend, workers=2)
    list(engine.run([job(index=index) for index in range(3)]))
    engine.submit(job())
    engine.close()
    engine.close()
    assert set(threading.enumerate()) <= threads
    assert workers_of(os.getpid()) == workers


@pytest.mark.parametrize(
    ("options", "backend"),
    [({"retries": -1}, "inline"), ({"workers": 0}, "pool"), ({"episodes_per_worker": 0}, "pool")],
)
def test_impossible_engines_are_refused(options: dict[str, int], backend: Literal["inline", "pool"]) -> None:
    with pytest.raises(ValueError, match="at least"):
        make_engine(backend, **options)  # pyright: ignore[reportArgumentType]  ints, all of them
