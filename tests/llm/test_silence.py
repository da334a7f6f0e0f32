"""A run stops where nobody answers its policy, and for no lesser reason: with real HTTP where a server is there."""

from __future__ import annotations

from pathlib import Path
from typing import Literal

import pytest

from envharness.cli.app import run as command
from envharness.core.errors import MachineryError, PolicyError
from envharness.core.policy import PolicySpec
from envharness.core.spec import StackSpec
from envharness.core.trace import Episode, Outcome, TraceStep
from envharness.core.types import Observation
from envharness.llm.silence import SILENT_ATTEMPTS, Silence
from envharness.rigger.config import DesignerConfig, EnvironmentConfig, RigConfig
from envharness.rigger.loop import rig
from envharness.rollouts.engine import make_engine
from envharness.rollouts.job import Limits
from envharness.store.database import RunStore
from envharness.testing import fault_replies as replies
from envharness.testing.fault_server import FaultServer

NOWHERE = "http://127.0.0.1:9/v1"


def unanswered(task: str = "a", *, attempt: int = 3, turns: int = 0, detail: str = "connection failed") -> Episode:
    steps = [TraceStep(step=turn, action=None, shown=Observation(text="")) for turn in range(turns)]
    outcome = Outcome(kind="invalid", reason="policy_error", detail=detail)
    return Episode(task=task, seed=0, outcome=outcome, steps=steps, attempt=attempt)


def after(*episodes: Episode, asked: tuple[str, ...] = ("a",)) -> Silence:
    silence = Silence()
    for task in asked:
        silence.ask(task)
    for episode in episodes:
        silence.take(episode)
    return silence


VALID = Episode(task="a", seed=0, outcome=Outcome(kind="failure", reason="stopped"))


def test_attempts_without_an_answer_are_counted_in_a_row() -> None:
    assert not after(*[unanswered()] * 2).complete
    assert after(*[unanswered()] * 3).complete
    assert not after(*[unanswered(attempt=1)] * (SILENT_ATTEMPTS - 1)).complete
    assert after(*[unanswered(attempt=1)] * SILENT_ATTEMPTS).complete
    assert not after(*[unanswered()] * 2, unanswered(turns=1), unanswered()).complete


def test_a_valid_episode_ends_the_watch() -> None:
    assert not after(VALID, *[unanswered()] * 50).complete


def test_one_task_alone_is_not_enough_where_there_are_more() -> None:
    assert not after(*[unanswered()] * 50, asked=("a", "b")).complete
    assert after(*[unanswered()] * 3, unanswered("b"), asked=("a", "b")).complete


@pytest.mark.parametrize("detail", ["HTTP 400: maximum context length is 8", "HTTP 413", "content filter withheld it"])
def test_what_lies_in_the_prompt_does_not_count(detail: str) -> None:
    assert not after(*[unanswered(detail=detail)] * 50).complete


def test_other_faults_do_not_count() -> None:
    lost = unanswered().model_copy(update={"outcome": Outcome(kind="invalid", reason="worker_died")})
    assert not after(*[lost] * 50).complete


def plan(url: str, tasks: int = 20) -> RigConfig:
    with StackSpec.environment("toy24").build() as env:
        names = env.list_tasks()[:tasks]
    return RigConfig(
        environment=EnvironmentConfig(id="toy24"),
        tasks=names,
        policy=PolicySpec(id="llm.asking:Asking", options={"url": url}),
        designer=DesignerConfig(id="identity"),
        rollouts=3,
        rounds=1,
        limits=Limits(max_steps=2),
    )


def carry_out(folder: Path, config: RigConfig, backend: Literal["inline", "pool"] = "inline") -> None:
    with (
        RunStore.open(folder, config=config.model_dump(mode="json"), command="rig") as store,
        make_engine(backend, workers=1, retries=1) as engine,
    ):
        rig(config, store=store, engine=engine, unsafe_hooks=True)


@pytest.mark.slow
@pytest.mark.parametrize("backend", ["inline", "pool"])
def test_a_run_whose_server_takes_no_request_stops_soon_and_goes_on_later(
    tmp_path: Path, backend: Literal["inline", "pool"]
) -> None:
    with FaultServer.replying(replies.error(400, "no such field")) as server:
        config = plan(server.base_url)
        with pytest.raises(
            PolicyError, match=r"no answer in 4 episodes \(8 attempts\).*HTTP 400: no such field.*go on"
        ):
            carry_out(tmp_path, config, backend)
        # Episodes come before the stop reaches a worker that plays 16 at once.
        assert len(server.requests) < 60
        with RunStore.read(tmp_path) as store:
            assert sum(phase.invalid for phase in store.phase_counts()) >= 4
            assert not list(store.records("task_result"))
        server.behaviour = lambda _, __: replies.answer()
        carry_out(tmp_path, config, backend)
    with RunStore.read(tmp_path) as store:
        assert sum(phase.invalid for phase in store.phase_counts()) == 0
        assert len(store.record_keys("task_result")) == 20


@pytest.mark.slow
def test_a_server_that_goes_after_one_valid_episode_does_not_stop_the_run(tmp_path: Path) -> None:
    with FaultServer(lambda _, number: replies.answer() if number < 2 else replies.error(400, "no")) as server:
        carry_out(tmp_path, plan(server.base_url, 4))
        carry_out(tmp_path, plan(server.base_url, 4))
    with RunStore.read(tmp_path) as store:
        assert {phase.phase: phase.invalid for phase in store.phase_counts()} == {"rig/baseline": 11, "rig/resets": 0}


@pytest.mark.slow
def test_the_command_says_the_last_error_in_one_line(capsys: pytest.CaptureFixture[str]) -> None:
    arguments = ["run", "toy24", "-p", "llm.asking:Asking", "-q", f"url={NOWHERE}", "-n", "500"]
    assert command(arguments) == MachineryError.exit_code
    said = capsys.readouterr().err.splitlines()
    assert [line for line in said if "trying on" in line] == [said[0]]
    assert "connection failed" in said[-1]
    assert "no answer in 3 episodes (9 attempts)" in said[-1]
    assert "Traceback" not in "\n".join(said)
