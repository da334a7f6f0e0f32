"""What a run does when its model refuses, fails in passing, or costs more than the budget: with real HTTP."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Literal

import pytest

from envharness.cli.app import run as command
from envharness.core.errors import BudgetExhaustedError, ConfigError, ProviderRefusedError
from envharness.core.policy import PolicySpec
from envharness.core.spec import StackSpec
from envharness.core.trace import Episode
from envharness.core.types import JsonDict
from envharness.core.usage import Usage
from envharness.llm.chat import ChatRequest, Message
from envharness.llm.config import ModelConfig
from envharness.rigger.call_records import store_answer, stored_answer
from envharness.rigger.config import DesignerConfig, EnvironmentConfig, RigConfig
from envharness.rigger.loop import rig
from envharness.rigger.requests import Answered, Call
from envharness.rollouts.engine import Engine, make_engine
from envharness.rollouts.job import Limits, RolloutJob
from envharness.rollouts.ledger import LEDGER, Budget, read_ledger
from envharness.store.database import RunStore
from envharness.testing import fault_replies as replies
from envharness.testing.fault_server import Behaviour, FaultServer, SeenRequest

pytestmark = pytest.mark.slow

ONE_CALL = Usage(calls=1, prompt=10, completion=5)


def two_tasks(server: FaultServer) -> RigConfig:
    """Return a run of the null over two tasks: three rollouts of two turns for each baseline and each round."""
    with StackSpec.environment("toy24").build() as env:
        tasks = env.list_tasks()[:2]
    return RigConfig(
        environment=EnvironmentConfig(id="toy24"),
        tasks=tasks,
        policy=PolicySpec(id="llm.asking:Asking", options={"url": server.base_url}),
        designer=DesignerConfig(id="identity"),
        rollouts=3,
        rounds=1,
        limits=Limits(max_steps=2),
    )


def carry_out(
    folder: Path,
    plan: RigConfig,
    budget: Budget | None = None,
    backend: Literal["inline", "pool"] = "inline",
) -> None:
    content = plan.model_dump(mode="json")
    with (
        RunStore.open(folder, config=content, command="rig") as store,
        make_engine(backend, workers=1, retries=1) as engine,
    ):
        rig(plan, store=store, engine=engine, budget=budget, unsafe_hooks=True)


CANARY = "sk-canary-7f3a9c"


def test_a_key_ends_in_no_file_prompt_or_message(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("CANARY_KEY", CANARY)
    with FaultServer(lambda _, number: replies.answer() if number < 20 else replies.wrong_key(CANARY)) as server:
        options: JsonDict = {"url": server.base_url, "api_key": "env:CANARY_KEY"}
        policy = PolicySpec(id="llm.asking:Asking", options=options)
        plan = two_tasks(server).model_copy(update={"policy": policy})
        with pytest.raises(ProviderRefusedError) as raised:
            carry_out(tmp_path, plan, backend="pool")
        assert all(request.headers["authorization"] == f"Bearer {CANARY}" for request in server.requests)
        assert CANARY not in str([request.body for request in server.requests])
    with RunStore.read(tmp_path) as store:
        content = store.export_canonical().decode()
    assert "CANARY_KEY" in content, "the reference is part of the run"
    files = [path for path in tmp_path.rglob("*") if path.is_file()]
    assert files
    written = content + "".join(path.read_bytes().decode("latin-1") for path in files)
    shown = capfd.readouterr()
    assert CANARY not in written + str(raised.value) + shown.out + shown.err


def refusing_after(good: int) -> Behaviour:
    def behave(_: SeenRequest, number: int) -> replies.Reply:
        return replies.answer() if number < good else replies.wrong_key()

    return behave


@pytest.mark.parametrize("backend", ["inline", "pool"])
def test_a_refusal_stops_the_run_at_once_and_keeps_what_is_done(
    tmp_path: Path, backend: Literal["inline", "pool"]
) -> None:
    with FaultServer(refusing_after(5)) as server:
        plan = two_tasks(server)
        with pytest.raises(ProviderRefusedError, match="HTTP 401"):
            carry_out(tmp_path, plan, backend=backend)
        asked = len(server.requests)
        assert asked <= 5 + 4, "no more than the rollouts that were submitted by then"
        with RunStore.read(tmp_path) as store:
            kinds = [episode.outcome.kind for _, _, episode in store.episodes(phase="rig/baseline")]
            assert kinds.count("failure") == 2
            assert not list(store.records("task_result"))
        server.behaviour = refusing_after(10**6)
        carry_out(tmp_path, plan, backend=backend)
    with RunStore.read(tmp_path) as store:
        episodes = [episode for _, _, episode in store.episodes()]
        assert all(episode.valid for episode in episodes)
        assert read_ledger(store).total.calls == len(server.requests) - (asked - 5)


def test_a_fault_that_passes_touches_no_success_rate_and_is_booked(tmp_path: Path) -> None:
    def behave(_: SeenRequest, number: int) -> replies.Reply:
        return replies.overloaded() if number == 1 else replies.answer()

    with FaultServer(behave) as server:
        plan = two_tasks(server)
        carry_out(tmp_path, plan)
        with RunStore.read(tmp_path) as store:
            episodes = [episode for _, _, episode in store.episodes()]
            assert all(episode.valid for episode in episodes)
            assert [episode.wasted for episode in episodes if episode.wasted.calls] == [ONE_CALL]
            assert read_ledger(store).total.calls == len(server.requests) - 1


@pytest.mark.parametrize("backend", ["inline", "pool"])
def test_a_spent_budget_pauses_and_a_larger_one_goes_on(tmp_path: Path, backend: Literal["inline", "pool"]) -> None:
    with FaultServer() as server:
        plan = two_tasks(server)
        carry_out(tmp_path / "whole", plan)
        whole = len(server.requests)
        with pytest.raises(BudgetExhaustedError, match=r"of 100 tokens; paused .*'budget'"):
            carry_out(tmp_path / "run", plan, Budget(tokens=100), backend)
        paused = len(server.requests) - whole
        assert 100 / 15 <= paused < whole
        with pytest.raises(BudgetExhaustedError):
            carry_out(tmp_path / "run", plan, Budget(tokens=100), backend)
        assert len(server.requests) - whole == paused
        carry_out(tmp_path / "run", plan, Budget(tokens=10**6), backend)
        assert len(server.requests) == 2 * whole
    with RunStore.read(tmp_path / "whole") as one, RunStore.read(tmp_path / "run") as other:
        assert one.export_canonical() == other.export_canonical()
        ledger = read_ledger(other)
        assert ledger.total.calls == whole
        assert {task for _, task, _ in ledger} == set(plan.tasks if isinstance(plan.tasks, list) else [])
        assert dict(other.records(LEDGER))["policy"].keys() == {task for _, task, _ in ledger}


def test_the_ledger_books_designers_by_role_and_task(tmp_path: Path) -> None:
    with RunStore.open(tmp_path, config={}, command="rig") as store:
        for key, task in (("a", "t1"), ("b", "t1"), ("c", "t2")):
            usage: JsonDict = {"calls": 1, "prompt": 100, "completion": 20, "cost": 0.5}
            store.put_record("model_call", key, {"role": "designer", "task": task, "answer": {"usage": usage}})
        store.put_record("model_call", "d", {"role": "designer", "task": "t2", "answer": None})
        ledger = read_ledger(store)
    assert [(role, task, usage.prompt, usage.cost) for role, task, usage in ledger] == [
        ("designer", "t1", 200, 1.0),
        ("designer", "t2", 100, 0.5),
    ]
    assert ledger.by_role()["designer"] == ledger.total
    assert Budget(money=1.5).exhausted_by(ledger.total)


def test_money_is_a_budget_too() -> None:
    assert not Budget(money=1.0).exhausted_by(Usage(calls=1, prompt=10**9, cost=0.99))
    assert Budget(money=1.0).exhausted_by(Usage(calls=1, cost=1.25)) == "1.25 of 1 money"
    assert Budget().exhausted_by(Usage(calls=10**9, prompt=10**12, cost=1e9)) == ""


def test_a_budget_ends_although_the_endpoint_counts_nothing(tmp_path: Path) -> None:
    uncounted = replies.Reply(body=b'{"choices": [{"message": {"content": "ok"}}]}')
    with FaultServer.replying(uncounted) as server:
        plan = two_tasks(server)
        with pytest.raises(BudgetExhaustedError, match="of 100 tokens"):
            carry_out(tmp_path, plan, Budget(tokens=100))


def test_what_answers_without_an_answer_cost_counts_against_the_budget(tmp_path: Path) -> None:
    with FaultServer.replying(replies.empty_choices()) as server:
        plan = two_tasks(server)
        with pytest.raises(BudgetExhaustedError):
            carry_out(tmp_path, plan, Budget(tokens=20))
        with RunStore.read(tmp_path) as store:
            total = read_ledger(store).total
        assert (total.calls, total.prompt) == (len(server.requests), 7 * len(server.requests))


def failed(usage: Usage) -> Answered:
    return Answered(failure="provider", detail="no choice", usage=usage)


def test_what_a_designers_failed_calls_cost_is_kept_from_start_to_start(tmp_path: Path) -> None:
    request = ChatRequest(messages=(Message(role="user"),), role="designer", task="t")
    call = Call(request, ModelConfig(client="scripted", answers=("x",)))
    for _ in range(2):
        with RunStore.open(tmp_path, config={}, command="rig") as store:
            store_answer(store, call, failed(ONE_CALL))
            assert stored_answer(store, call) is None, "it is asked again"
    with RunStore.open(tmp_path, config={}, command="rig") as store:
        store_answer(store, call, Answered(failure="content_filter", usage=ONE_CALL))
        assert read_ledger(store).by_role() == {"designer": ONE_CALL + ONE_CALL + ONE_CALL}


class Interrupted(Engine):
    """An engine whose driver is interrupted while it waits for a policy's episodes, when all have come."""

    def __init__(self, engine: Engine) -> None:
        self._engine = engine
        self._come: list[tuple[RolloutJob, Episode]] = []
        self._asked = False

    def submit(self, job: RolloutJob) -> None:
        self._asked = self._asked or job.policy.id.startswith("llm")
        self._engine.submit(job)

    def next_result(self, timeout: float | None = None) -> tuple[RolloutJob, Episode] | None:
        if not self._asked:  # what was played so far asked no model
            return self._engine.next_result(timeout)
        if timeout == 0:
            return self._come.pop() if self._come else None
        while (finished := self._engine.next_result(timeout)) is not None:
            self._come.append(finished)
        raise KeyboardInterrupt

    @property
    def in_flight(self) -> int:
        return self._engine.in_flight

    @property
    def capacity(self) -> int:
        return self._engine.capacity

    def cancel(self) -> None:
        self._engine.cancel()

    def close(self) -> None:
        self._engine.close()


def test_what_had_come_before_an_interruption_is_kept(tmp_path: Path) -> None:
    with FaultServer() as server:
        plan = two_tasks(server)
        content = plan.model_dump(mode="json")
        with (
            RunStore.open(tmp_path, config=content, command="rig") as store,
            Interrupted(make_engine("inline")) as engine,
            pytest.raises(KeyboardInterrupt),
        ):
            rig(plan, store=store, engine=engine, unsafe_hooks=True)
        assert server.requests
        with RunStore.read(tmp_path) as store:
            assert read_ledger(store).total.calls == len(server.requests)


def test_a_key_that_was_pasted_is_not_even_shown_by_debug(capfd: pytest.CaptureFixture[str]) -> None:
    model = f"{{model: m, endpoints: [{{base_url: 'http://x', api_key: {CANARY}}}]}}"
    assert command(["run", "toy24", "-p", "llm", "-q", f"model={model}", "--debug"]) == ConfigError.exit_code
    shown = capfd.readouterr()
    assert "api_key" in shown.err
    assert CANARY not in shown.out + shown.err


@pytest.mark.parametrize("role", ["policy", "designer"])
def test_a_budget_of_money_needs_prices(tmp_path: Path, role: str) -> None:
    with FaultServer() as server:
        free: JsonDict = {"model": "m", "endpoints": [{"base_url": server.base_url}]}
        priced: JsonDict = {**free, "prices": {"prompt": 0}}
        plan = RigConfig(
            environment=EnvironmentConfig(id="toy24"),
            tasks=["easy-0000"],
            policy=PolicySpec(id="llm", options={"model": free if role == "policy" else priced}),
            designer=DesignerConfig(id="llm", options={"model": free if role == "designer" else priced}),
        )
        with pytest.raises(ConfigError, match=rf"budget.money: the {role}'s model \(m\) has no prices.*budget.tokens"):
            carry_out(tmp_path, plan, Budget(money=1.0))
        assert not server.requests


def test_the_command_ends_with_its_own_code_and_one_line(capsys: pytest.CaptureFixture[str]) -> None:
    with FaultServer.replying(replies.unknown_model()) as server:
        arguments = ["run", "toy24", "-p", "llm.asking:Asking", "-q", f"url={server.base_url}", "-n", "5"]
        assert command(arguments) == ProviderRefusedError.exit_code
        assert len(server.requests) == 1
    error = capsys.readouterr().err
    assert "HTTP 404" in error
    assert "Traceback" not in error


def test_a_run_of_episodes_says_what_its_model_used(capsys: pytest.CaptureFixture[str]) -> None:
    with FaultServer() as server:
        arguments = ["run", "toy24", "-p", "llm.asking:Asking", "-q", f"url={server.base_url}", "-n", "2"]
        assert command([*arguments, "--max-steps", "3", "--json"]) == 0
    shown = capsys.readouterr()
    assert "policy: 6 model calls, 60 prompt and 30 completion tokens" in shown.err
    used = json.loads(shown.out)["usage"]["policy"]
    assert (used["calls"], used["prompt"], used["completion"]) == (6, 60, 30)
