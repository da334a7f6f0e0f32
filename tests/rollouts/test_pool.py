"""The pool under attack: workers that die, hang and talk nonsense, and drivers that go."""

from __future__ import annotations

import os
import random
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from envharness.core.errors import MachineryError
from envharness.core.policy import PolicySpec
from envharness.core.trace import Episode
from envharness.rollouts.backends import worker_process
from envharness.rollouts.backends.frames import JOB, RESULT, Frame, FrameReader
from envharness.rollouts.backends.pool import PoolEngine
from envharness.rollouts.job import RolloutJob
from rollouts.hostile import WIN, job, kitchen, script
from rollouts.processes import command_of, descendants, eventually, workers_of

pytestmark = pytest.mark.slow


@pytest.fixture(autouse=True)
def no_process_left() -> Iterator[None]:
    before = descendants(os.getpid())
    yield
    assert eventually(lambda: not descendants(os.getpid()) - before), [
        command_of(pid) for pid in descendants(os.getpid()) - before
    ]


def pool(**options: float) -> PoolEngine:
    return PoolEngine(**{"workers": 1, "retries": 1, **options})  # pyright: ignore[reportArgumentType]  ints and floats


def only(engine: PoolEngine, job: RolloutJob) -> Episode:
    ((_, episode),) = engine.run([job])
    return episode


@pytest.mark.parametrize(
    ("how", "when", "words"),
    [("exit", "step", "exit status 41"), ("kill", "evaluate", "ended by SIGKILL"), ("exit", "init", "exit status 41")],
)
def test_a_worker_that_dies_costs_attempts_and_then_one_invalid_episode(how: str, when: str, words: str) -> None:
    with pool() as engine:
        dead = only(engine, job(kitchen(how=how, when=when)))
        assert (dead.outcome.kind, dead.outcome.reason) == ("invalid", "worker_died")
        assert words in dead.outcome.detail
        assert dead.attempt == 2
        assert not dead.success
        assert only(engine, job()).success


def test_the_last_words_of_a_worker_are_kept() -> None:
    with pool(retries=0) as engine:
        dead = only(engine, job(policy=script(how="complain")))
        assert dead.outcome.reason == "worker_died"
        assert "exit status 3; its last words: Segmentation violation in the renderer" in dead.outcome.detail
        noisy = only(engine, job(kitchen(how="print")))
        assert noisy.success


def test_the_episode_of_a_dead_worker_is_played_again(tmp_path: Path) -> None:
    with pool() as engine:
        episode = only(engine, job(kitchen(how="exit", once=str(tmp_path / "seen"))))
        assert episode.success
        assert (episode.attempt, episode.worker) == (2, "worker-2")


def test_a_hanging_worker_is_replaced_and_the_others_go_on() -> None:
    jobs = [job(kitchen(how="hang"), index=0, step_seconds=0.3), *(job(index=index) for index in range(1, 6))]
    with pool(workers=2, retries=0) as engine:
        order = [played.index for played, episode in engine.run(jobs) if episode.valid]
        assert sorted(order) == [1, 2, 3, 4, 5]
        assert only(engine, job()).success


@pytest.mark.parametrize("attack", ["environment", "policy"])
def test_a_call_that_lets_nobody_else_run_is_ended_by_the_driver(attack: str) -> None:
    hang = "hang holding the GIL"
    stack = kitchen(how=hang if attack == "environment" else "nothing")
    policy = script(how=hang if attack == "policy" else "")
    attacked = job(stack, policy, episode_seconds=0.5)
    with pool(retries=0, grace_seconds=0.5) as engine:
        began = time.monotonic()
        episode = only(engine, attacked)
        assert (episode.outcome.kind, episode.outcome.reason) == ("invalid", "time_limit")
        assert time.monotonic() - began < 20
        assert only(engine, job()).success


def test_what_an_environment_started_ends_with_its_worker() -> None:
    with pool(retries=0) as engine:
        assert only(engine, job(kitchen(how="spawn"))).success
        assert any("sleep" in command_of(pid) for pid in descendants(os.getpid()))


def test_episodes_side_by_side_in_one_worker_wait_together_and_share_one_thread() -> None:
    naps = PolicySpec(id="rollouts.hostile:Naps", options={"seconds": 0.5})
    jobs = [job(kitchen(how="nothing"), naps, index=index) for index in range(6)]
    with pool(episodes_per_worker=6) as engine:
        only(engine, job())
        began = time.monotonic()
        results = list(engine.run(jobs))
        assert time.monotonic() - began < 2.5
        assert {episode.worker for _, episode in results} == {"worker-1"}
        assert all(episode.evaluation and episode.evaluation.metrics == {"threads": 1} for _, episode in results)


def test_a_stuck_thread_does_not_cost_its_neighbours_an_attempt() -> None:
    naps = PolicySpec(id="rollouts.hostile:Naps", options={"seconds": 0.6})
    jobs = [job(kitchen(how="hang"), index=0, step_seconds=0.2), job(policy=naps, index=1)]
    with pool(episodes_per_worker=2, retries=0) as engine:
        results = {played.index: episode for played, episode in engine.run(jobs)}
        assert results[0].outcome.reason == "time_limit"
        assert results[1].success
        assert results[1].attempt == 1


def test_an_episode_has_all_its_time_from_when_its_environment_is_taken_up() -> None:
    slow = job(kitchen(how="hang", when="reset", seconds=4.0), step_seconds=30.0, index=0)
    jobs = [slow, *(job(index=index, episode_seconds=3.0) for index in (1, 2))]
    with pool(episodes_per_worker=3, retries=0, grace_seconds=0.2) as engine:
        results = {played.index: episode for played, episode in engine.run(jobs)}
    assert [(results[index].outcome.kind, results[index].outcome.detail) for index in (0, 1, 2)] == [
        ("success", "")
    ] * 3
    assert {episode.worker for episode in results.values()} == {"worker-1"}
    assert results[0].seconds > 3.9
    assert max(results[1].seconds, results[2].seconds) < 3.0


def test_one_whose_own_reset_takes_longer_than_it_has_is_ended_all_the_same() -> None:
    with pool(retries=0) as engine:
        episode = only(
            engine, job(kitchen(how="hang", when="reset", seconds=60.0), step_seconds=50.0, episode_seconds=1.0)
        )
    assert episode.outcome.reason == "time_limit"
    assert "longer than 1 s" in episode.outcome.detail


def test_results_come_in_the_order_in_which_they_finish() -> None:
    slow = PolicySpec(id="rollouts.hostile:Naps", options={"seconds": 1.5})
    with pool(workers=2) as engine:
        list(engine.run([job(index=8), job(index=9)]))
        order = [played.index for played, _ in engine.run([job(policy=slow, index=0), job(index=1), job(index=2)])]
        assert order == [1, 2, 0]


def test_next_result_gives_up_in_time() -> None:
    with pool() as engine:
        engine.submit(job(policy=script(how="waits")))
        began = time.monotonic()
        assert engine.next_result(timeout=0.2) is None
        assert time.monotonic() - began < 2
        assert engine.in_flight == 1
        engine.cancel()
        assert engine.next_result(timeout=0.2) is None
        assert only(engine, job()).success


@pytest.mark.parametrize("limit", [{"max_episodes": 2}, {"max_memory_bytes": 1}])
def test_a_worker_retires_before_it_leaks_too_much(limit: dict[str, int]) -> None:
    with pool(**limit) as engine:
        workers = [episode.worker for _, episode in engine.run(job(index=index) for index in range(4))]
    assert len(set(workers)) == (2 if "max_episodes" in limit else 4)


def test_a_worker_closes_its_environment_when_the_engine_is_closed(tmp_path: Path) -> None:
    closed = tmp_path / "closed"
    stack = kitchen(how="nothing", when="close", once=str(closed))
    with pool() as engine:
        engine.submit(job(stack, script(how="waits")))
        assert engine.next_result(timeout=2.0) is None
    assert closed.exists()


def test_workers_that_cannot_start_are_reported_not_restarted_for_ever(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(worker_process, "_BOOT", "raise SystemExit('no such module')")
    with pool() as engine, pytest.raises(MachineryError, match=r"cannot be started: exit status 1.*no such module"):
        only(engine, job())


def test_a_worker_that_talks_nonsense_is_a_worker_that_died(monkeypatch: pytest.MonkeyPatch) -> None:
    babble = (
        "import json, os, socket, sys, time; s = socket.socket(fileno=json.loads(sys.argv[2])['descriptor']);"
        "from envharness.rollouts.backends.frames import *; s.sendall(Frame(READY).encode()); s.recv(9); "
        "s.sendall(b'nonsense' * 10); time.sleep(60)"
    )
    monkeypatch.setattr(worker_process, "_BOOT", babble)
    with pool(retries=0) as engine:
        episode = only(engine, job())
        assert episode.outcome.reason == "worker_died"
        assert "not a frame" in episode.outcome.detail


@pytest.mark.slow
def test_in_a_storm_of_faults_every_job_comes_back_once_as_what_it_is(tmp_path: Path) -> None:
    kinds = ["fine", "dies once", "dies", "hangs", "faulty hook", "provider"]
    chance = random.Random(5)
    plan = [chance.choice(kinds) for _ in range(40)]

    def make(index: int, kind: str) -> RolloutJob:
        stacks = {
            "dies once": kitchen(how="exit", once=str(tmp_path / str(index))),
            "dies": kitchen(how="kill", when="reset"),
            "hangs": kitchen(how="hang"),
            "faulty hook": kitchen(how="hook fault"),
        }
        policy = script(how="provider") if kind == "provider" else script()
        return job(stacks.get(kind, kitchen()), policy, index=index, step_seconds=0.5)

    expected = {
        "fine": ("", 1),
        "dies once": ("", 2),
        "dies": ("worker_died", 2),
        "hangs": ("time_limit", 2),
        "faulty hook": ("component_fault", 1),
        "provider": ("policy_error", 2),
    }
    with pool(workers=2) as engine:
        results = [(played.index, episode) for played, episode in engine.run(map(make, range(40), plan))]
    assert sorted(index for index, _ in results) == list(range(40))
    for index, episode in results:
        assert (episode.outcome.reason, episode.attempt) == expected[plan[index]], plan[index]
        assert episode.success == (plan[index] in {"fine", "dies once"})


@pytest.mark.parametrize("hash_seed", [None, "random", "7"])
def test_all_workers_order_sets_alike(hash_seed: str | None, monkeypatch: pytest.MonkeyPatch) -> None:
    if hash_seed is None:
        monkeypatch.delenv("PYTHONHASHSEED", raising=False)
    else:
        monkeypatch.setenv("PYTHONHASHSEED", hash_seed)
    with pool(max_episodes=1) as engine:
        episodes = [episode for _, episode in engine.run(job(policy=script(how="hash"), index=n) for n in range(3))]
    assert len({episode.worker for episode in episodes}) == 3
    assert len({episode.steps[0].text for episode in episodes}) == 1


def test_frames_survive_any_splitting() -> None:
    frames = [Frame(JOB, 1, 2, b"x" * 300), Frame(RESULT, 2**60, 3), Frame(JOB, 3, 1, b"{}")]
    data = b"".join(frame.encode() for frame in frames)
    for size in (1, 7, 20, 21, 22, 1000):
        reader = FrameReader()
        found = [frame for start in range(0, len(data), size) for frame in reader.feed(data[start : start + size])]
        assert found == frames


DRIVER = """
import sys
sys.path[:0] = {path!r}
from rollouts.hostile import job, kitchen, script
from envharness.rollouts.backends.pool import PoolEngine
from envharness.rollouts.interrupts import termination_unwinds
if __name__ == "__main__":
    with termination_unwinds(), PoolEngine(workers=2, retries=2, grace_seconds=3.0) as engine:
        print("begun", flush=True)
        for played, episode in engine.run([{jobs}]):
            print(episode.outcome.kind, flush=True)
"""


def start_driver(tmp_path: Path, jobs: str) -> subprocess.Popen[str]:
    program = tmp_path / "driver.py"
    program.write_text(DRIVER.format(path=sys.path, jobs=jobs))
    driver = subprocess.Popen([sys.executable, str(program)], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    assert driver.stdout is not None
    assert driver.stdout.readline() == "begun\n"
    assert eventually(lambda: len(workers_of(driver.pid)) == 2, 30)
    return driver


@pytest.mark.slow
@pytest.mark.parametrize(
    ("number", "status"),
    [(signal.SIGINT, -2), (signal.SIGTERM, 143), (signal.SIGKILL, -9)],
    ids=["INT", "TERM", "KILL"],
)
@pytest.mark.parametrize("moment", ["starting", "waiting policy", "hanging environment", "sleeping policy"])
def test_no_worker_outlives_its_driver(tmp_path: Path, number: signal.Signals, status: int, moment: str) -> None:
    jobs = {
        "starting": "job(policy=script(how='waits')) for _ in range(4)",
        "waiting policy": "job(policy=script(how='waits')) for _ in range(4)",
        "hanging environment": "job(kitchen(how='hang')) for _ in range(4)",
        "sleeping policy": "job(policy=script(how='hang')) for _ in range(4)",
    }[moment]
    driver = start_driver(tmp_path, f"*({jobs})")
    workers = workers_of(driver.pid)
    if moment != "starting":
        time.sleep(1.5)
    driver.send_signal(number)
    driver.communicate(timeout=30)
    assert driver.returncode == status
    assert eventually(lambda: not any(command_of(pid) for pid in workers))


@pytest.mark.slow
def test_ctrl_c_in_the_inline_engine_closes_what_is_open(tmp_path: Path) -> None:
    closed = tmp_path / "closed"
    program = (
        f"import sys; sys.path[:0] = {sys.path!r}\n"
        "from rollouts.hostile import job, kitchen, script\n"
        "from envharness.rollouts.engine import make_engine\n"
        f"stack = kitchen(how='nothing', when='close', once={str(closed)!r})\n"
        "with make_engine('inline') as engine:\n"
        "    print('begun', flush=True)\n"
        "    list(engine.run([job(stack, script(how='waits'))]))\n"
    )
    with subprocess.Popen(
        [sys.executable, "-c", program], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    ) as driver:
        assert driver.stdout is not None
        assert driver.stdout.readline() == "begun\n"
        time.sleep(0.5)
        driver.send_signal(signal.SIGINT)
        driver.communicate(timeout=20)
    assert driver.returncode == -signal.SIGINT
    assert closed.exists()


@pytest.mark.slow
def test_a_killed_drivers_worker_ends_even_while_a_call_lets_nobody_run(tmp_path: Path) -> None:
    driver = start_driver(tmp_path, "*(job(kitchen(how='hang holding the GIL'), episode_seconds=1) for _ in range(2))")
    workers = workers_of(driver.pid)
    time.sleep(1.5)
    driver.kill()
    driver.communicate()
    # By the worker's own watchdog: the episode's limit and the grace.
    assert eventually(lambda: not any(command_of(pid) for pid in workers), 60)


def test_ctrl_c_in_a_worker_is_the_drivers_to_handle() -> None:
    with pool(retries=0) as engine:
        assert only(engine, job()).success
        for pid in workers_of(os.getpid()):
            os.kill(pid, signal.SIGINT)
        episode = only(engine, job(policy=script([None, *WIN])))
        assert episode.success
        assert episode.worker == "worker-1"
