"""Policies that never wait: their turns are played on the environment's thread, under the same limits and blame."""

from __future__ import annotations

import asyncio
import threading
import time
from pathlib import Path
from typing import Any

import pytest

from envharness.core.policy import PolicySpec, is_immediate
from envharness.core.trace import Episode
from envharness.rollouts.engine import Backend, make_engine
from envharness.rollouts.environment_thread import EnvironmentThread, Series
from envharness.rollouts.episode import play, run_episode
from envharness.rollouts.job import Limits, RolloutJob
from rollouts.hostile import THREADS, WIN, Misbehaving, Script, Unsure, job, kitchen


def immediate(actions: list[Any] | None = None, **options: Any) -> PolicySpec:
    wanted: Any = WIN if actions is None else actions
    return PolicySpec(id="rollouts.hostile:Immediate", options={"actions": wanted, **options})


def played(job: RolloutJob) -> Episode:
    return asyncio.run(play(job))


def test_all_turns_are_played_on_the_environments_one_thread() -> None:
    THREADS.clear()
    episode = played(job(kitchen(how="nothing"), immediate()))
    assert episode.success
    assert episode.evaluation is not None
    assert episode.evaluation.metrics == {"threads": 1}
    assert len(THREADS) == 2
    assert threading.get_ident() not in THREADS


def test_the_word_of_the_instance_counts() -> None:
    assert is_immediate(Unsure(seed=0, immediate=True))
    assert not is_immediate(Unsure(seed=0, immediate=False))
    assert not is_immediate(Script(seed=0, actions=[]))
    for says in (True, False):
        policy = PolicySpec(id="rollouts.hostile:Unsure", options={"immediate": says})
        assert played(job(policy=policy)).success


@pytest.mark.parametrize("how", ["waits", "yields", "keeps on waiting"])
@pytest.mark.parametrize("live", [False, True])
def test_one_that_waits_after_all_has_itself_to_blame(how: str, live: bool) -> None:
    if live:
        with Misbehaving() as env:
            episode = run_episode(env, immediate(how=how, at=1))
    else:
        episode = played(job(policy=immediate(how=how, at=1)))
    assert (episode.outcome.kind, episode.outcome.reason) == ("invalid", "policy_error")
    assert episode.outcome.detail == (
        "turn 1: the policy says that it is immediate, but act() waited for something; "
        "set immediate = False, or await nothing"
    )
    assert len(episode.steps) == 1


@pytest.mark.parametrize(
    ("options", "detail"),
    [
        ({"how": "raise", "at": 1}, "turn 1: KeyError"),
        ({"how": "sys.exit"}, "turn 0: SystemExit: over"),
        ({"how": "stop iteration"}, "turn 0: RuntimeError"),
        ({"how": "dictionary"}, "turn 0: TypeError: act returned dict, not a Decision"),
        ({"how": "timeout"}, "turn 0: TimeoutError"),
        ({"how": "hook fault"}, "turn 0: hook filter_action"),
        ({"how": "", "actions": [{"name": "say \ud800"}]}, "turn 0: PydanticSerializationError"),
    ],
)
def test_what_it_raises_is_its_own(options: dict[str, Any], detail: str) -> None:
    episode = played(job(policy=immediate(**options)))
    assert (episode.outcome.kind, episode.outcome.reason) == ("invalid", "policy_error")
    assert episode.outcome.detail.startswith(detail)


@pytest.mark.parametrize(
    ("how", "when", "cause", "detail"),
    [
        ("raise", "step", "environment_error", "turn 0: KeyError: 'mug'"),
        ("raise", "evaluate", "environment_error", "evaluate: KeyError: 'mug'"),
        ("sys.exit", "step", "environment_error", "turn 0: RuntimeError: the environment raised SystemExit"),
        ("stop iteration", "step", "environment_error", "turn 0: "),
        ("timeout", "step", "environment_error", "turn 0: TimeoutError: the container did not answer"),
        ("hook fault", "step", "component_fault", "turn 0: hook filter_action: it raised"),
        ("zygote", "step", "sandbox_error", "turn 0: it is gone"),
    ],
)
def test_what_the_stack_raises_is_not(how: str, when: str, cause: str, detail: str) -> None:
    episode = played(job(kitchen(how=how, when=when), immediate()))
    assert (episode.outcome.kind, episode.outcome.reason) == ("invalid", cause)
    assert episode.outcome.detail.startswith(detail)


@pytest.mark.parametrize(("when", "detail", "steps"), [("step", "turn 0", 0), ("evaluate", "evaluate", 2)])
def test_a_hanging_call_is_found_and_nothing_of_it_is_kept(when: str, detail: str, steps: int) -> None:
    began = time.monotonic()
    episode = played(job(kitchen(how="hang", when=when, seconds=1.0), immediate(), step_seconds=0.2))
    assert (episode.outcome.kind, episode.outcome.reason) == ("invalid", "time_limit")
    assert episode.outcome.detail == f"{detail}: an environment call took longer than 0.2 s"
    assert any("abandoned" in note for note in episode.notes)
    assert len(episode.steps) == steps
    assert episode.seconds < 0.9
    assert time.monotonic() - began < 5


def test_many_calls_together_may_take_longer_than_one() -> None:
    episode = played(job(kitchen(how="hang", seconds=0.12), immediate([{"name": "take"}] * 5), step_seconds=0.4))
    assert (episode.outcome.kind, episode.outcome.reason) == ("failure", "stopped")
    assert sum(step.env_seconds for step in episode.steps) > 0.5


def test_its_own_time_does_not_count_as_the_environments() -> None:
    episode = played(job(policy=immediate(how="blocks", tokens=1), step_seconds=0.3))
    assert episode.success
    assert episode.steps[0].policy_seconds > 0.9


def test_one_that_blocks_runs_into_the_limit_of_the_episode() -> None:
    async def both() -> tuple[Episode, Episode]:
        blocked = asyncio.create_task(play(job(policy=immediate(how="blocks", tokens=2), episode_seconds=0.2)))
        fine = await play(job())  # on a thread of its own, while the other blocks
        return await blocked, fine

    blocked, fine = asyncio.run(both())
    assert (blocked.outcome.kind, blocked.outcome.reason) == ("invalid", "time_limit")
    assert blocked.outcome.detail == "the episode took longer than 0.2 s"
    assert blocked.steps == []
    assert fine.seconds < 1


def test_cancelling_ends_it_between_two_turns_and_closes_the_environment(tmp_path: Path) -> None:
    closed = tmp_path / "closed"
    stack = kitchen(how="nothing", when="close", once=str(closed))

    async def cancel() -> None:
        task = asyncio.create_task(play(job(stack, immediate([{"name": "take"}] * 40, how="dawdles"))))
        await asyncio.sleep(0.3)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task

    THREADS.clear()
    asyncio.run(cancel())
    assert closed.exists()
    turns = len(THREADS)
    assert turns > 2
    time.sleep(0.05)
    assert len(THREADS) == turns, "the turns ended with the episode"


def test_calls_of_others_come_in_between_its_turns() -> None:
    async def side_by_side() -> list[str]:
        host, order = EnvironmentThread(), list[str]()

        def series(name: str) -> Series[str]:
            for _ in range(3):
                order.append(name)
                yield True
                time.sleep(0.05)
            return name

        async def single() -> str:
            await asyncio.sleep(0.07)
            return await host.call(lambda: order.append("single") or "single", 1.0)

        try:
            results = await asyncio.gather(host.series(series("a"), 0.1), host.series(series("b"), 0.1), single())
        finally:
            host.close()
        assert results == ["a", "b", "single"]
        return order

    order = asyncio.run(side_by_side())
    assert "".join(name for name in order if name != "single") == "ababab"
    assert "single" in order[:-1]


@pytest.mark.parametrize("backend", ["inline", "pool"])
def test_an_engine_goes_on_after_one_that_hangs(backend: Backend) -> None:
    jobs = [
        job(policy=immediate(), index=0),
        job(kitchen(how="hang", seconds=1.5), immediate(), index=1, step_seconds=0.2),
        job(policy=immediate(), index=2),
    ]
    with make_engine(backend, workers=1, retries=1) as engine:
        results = {played.index: episode for played, episode in engine.run(jobs)}
    assert (results[1].outcome.reason, results[1].attempt) == ("time_limit", 2)
    assert results[0].success
    assert results[2].success


def test_a_token_limit_and_the_number_of_turns_end_it() -> None:
    takes = [{"name": "take"}] * 9
    assert played(job(policy=immediate(takes, tokens=10), policy_tokens=25)).outcome.reason == "token_limit"
    limited = run_episode(kitchen(), immediate(takes), limits=Limits(max_steps=4))
    assert (limited.outcome.reason, len(limited.steps)) == ("out_of_steps", 4)
