"""Taking jobs back: what nobody has begun is dropped, what is being played is handed out as it ends."""

from __future__ import annotations

import os
import signal
from pathlib import Path

import pytest

from envharness.core.policy import PolicySpec
from envharness.core.trace import Episode
from envharness.rollouts.backends.pool import PoolEngine
from envharness.rollouts.engine import make_engine
from envharness.rollouts.interrupts import StopRequest
from rollouts.hostile import job, kitchen
from rollouts.processes import eventually, workers_of

NAPS = PolicySpec(id="rollouts.hostile:Naps", options={"seconds": 0.4})


def test_the_inline_engine_forgets_what_is_queued() -> None:
    with make_engine() as engine:
        for index in range(3):
            engine.submit(job(index=index))
        assert engine.next_result() is not None
        engine.withdraw()
        assert engine.in_flight == 0
        assert engine.next_result() is None
        engine.submit(job(index=9))
        assert engine.next_result() is not None


@pytest.mark.slow
def test_the_pool_finishes_what_is_played_and_no_more() -> None:
    with PoolEngine(workers=1, retries=2, episodes_per_worker=2) as engine:
        for index in range(6):
            engine.submit(job(policy=NAPS, index=index))
        first = engine.next_result()
        assert first is not None
        engine.withdraw()
        played = [first]
        while engine.in_flight:
            if (result := engine.next_result(1.0)) is not None:
                played.append(result)
        # Two at a time: they end together, and others may have taken their places before the rest was taken back.
        assert sorted(taken.index for taken, _ in played) in ([0, 1], [0, 1, 2], [0, 1, 2, 3])
        assert all(episode.success for _, episode in played)
        engine.submit(job(index=9))
        assert engine.next_result() is not None


@pytest.mark.slow
def test_an_episode_that_fails_meanwhile_is_handed_out_and_not_tried_again(tmp_path: Path) -> None:
    begun = tmp_path / "begun"
    with PoolEngine(workers=1, retries=5) as engine:
        engine.submit(job(kitchen(how="hang", once=str(begun), seconds=20.0), step_seconds=30.0, index=1))
        engine.submit(job(index=2))
        assert eventually(begun.exists, 30)
        engine.withdraw()
        for pid in workers_of(os.getpid()):
            os.kill(pid, signal.SIGKILL)
        results: list[Episode] = []
        while engine.in_flight:
            if (result := engine.next_result(1.0)) is not None:
                results.append(result[1])
    assert [(episode.index, episode.attempt, episode.outcome.reason) for episode in results] == [(1, 1, "worker_died")]


@pytest.mark.parametrize("backend", ["inline", "pool"])
@pytest.mark.slow
def test_run_ends_with_what_was_begun_once_a_stop_is_asked_for(backend: str) -> None:
    stop = StopRequest()
    with make_engine("pool" if backend == "pool" else "inline", workers=1) as engine:
        played = 0
        for _ in engine.run((job(index=index) for index in range(1000)), stop=stop):
            played += 1
            if played == 3:
                stop.number = 2
        assert 3 <= played <= 8
        assert engine.in_flight == 0
