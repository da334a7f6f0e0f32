"""The LLM designer over real HTTP: good answers, every fault of an endpoint, and a key that is found nowhere."""

from __future__ import annotations

import json
from pathlib import Path
from typing import cast

import pytest

from envharness.core.errors import ProviderRefusedError
from envharness.core.types import JsonDict
from envharness.rigger.config import DesignerConfig, RigConfig
from envharness.rigger.loop import rig
from envharness.rigger.records import TaskResult
from envharness.rigger.results import load_results
from envharness.rollouts.engine import make_engine
from envharness.store.database import RunStore
from envharness.testing import fault_replies as faults
from envharness.testing.fault_server import FaultServer, SeenRequest
from rigger.author import CANDIDATE, DIAGNOSIS
from rigger.build import config

pytestmark = pytest.mark.slow

pytest.importorskip("aiohttp", reason="the llm extra is not installed")

CANARY = "sk-canary-5b1f0e7a"


def settings(server: FaultServer, *, key: bool = False) -> RigConfig:
    endpoint: JsonDict = {"base_url": server.base_url}
    if key:
        endpoint["api_key"] = "env:ENVHARNESS_TEST_KEY"
    model: JsonDict = {"model": "m", "endpoints": [endpoint], "retries": 1, "timeout_seconds": 0.5}
    designer = DesignerConfig(id="llm", options={"model": model, "label_failures": False})
    return config(designer=designer, null=False, rounds=1, check_retries=0)


def run(folder: Path, how: RigConfig) -> TaskResult:
    recorded = cast("JsonDict", how.model_dump(mode="json"))
    with RunStore.open(folder, config=recorded, command="rig") as store, make_engine() as engine:
        rig(how, store=store, engine=engine)
        return load_results(store, "llm")[0]


def author(request: SeenRequest, number: int) -> faults.Reply:
    del number
    tools = cast("list[JsonDict]", request.body["tools"])
    name = str(cast("JsonDict", tools[0]["function"])["name"])
    written = DIAGNOSIS if name == "record_diagnosis" else CANDIDATE
    return faults.answer(None, tool_calls=[(name, json.dumps(written))])


def test_its_own_sampling_goes_before_the_models(tmp_path: Path) -> None:
    with FaultServer(author) as server:
        how = settings(server)
        model: JsonDict = {
            **cast("JsonDict", how.designer.options["model"]),
            "sampling": {"temperature": 0.5, "max_tokens": 64},
        }
        options: JsonDict = {**how.designer.options, "model": model, "sampling": {"max_tokens": 4000}}
        run(tmp_path, how.model_copy(update={"designer": DesignerConfig(id="llm", options=options)}))
    asked = [(request.body["max_tokens"], request.body["temperature"]) for request in server.requests]
    assert asked == [(4000, 0.5)] * 2


def test_a_good_model_is_understood(tmp_path: Path) -> None:
    with FaultServer(author) as server:
        result = run(tmp_path, settings(server))
    assert result.rounds[0].measured is not None
    assert len(server.requests) == 2
    roles = [str(message["role"]) for message in cast("list[JsonDict]", server.requests[-1].body["messages"])]
    assert roles == ["system", "user", "assistant", "user"], "the sides take turns, as chat templates want"


@pytest.mark.parametrize(
    ("reply", "requests", "status"),
    [
        (faults.answer("Sorry, I cannot help with that."), 1, "rejected"),
        (faults.wrong_tool_arguments("record_diagnosis"), 1, "rejected"),
        (faults.cut_by_length(), 1, "rejected"),
        (faults.two_tool_calls(("a", "{}"), ("b", "[]")), 1, "rejected"),
        (faults.unicode_noise(), 1, "rejected"),
        (faults.filtered(), 1, "rejected"),
        (faults.overloaded(), 2, "invalid"),
        (faults.hang(), 2, "invalid"),
        (faults.cut_body(), 2, "invalid"),
        (faults.invalid_json(), 2, "invalid"),
        (faults.empty_choices(), 2, "invalid"),
        (faults.rate_limited("0"), 2, "invalid"),
        (faults.context_overflow(), 1, "invalid"),
    ],
)
def test_no_fault_is_an_acceptance_and_none_costs_a_rollout(
    tmp_path: Path, reply: faults.Reply, requests: int, status: str
) -> None:
    with FaultServer.replying(reply) as server:
        result = run(tmp_path, settings(server))
    assert result.status == status
    assert all(entry.measured is None for entry in result.rounds)
    assert result.baseline.complete
    assert len(server.requests) == requests


@pytest.mark.parametrize("reply", [faults.wrong_key(CANARY), faults.no_permission(), faults.unknown_model()])
def test_a_refused_key_or_model_ends_the_run_at_once(
    tmp_path: Path, reply: faults.Reply, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("ENVHARNESS_TEST_KEY", CANARY)
    with FaultServer.replying(reply) as server, pytest.raises(ProviderRefusedError) as caught:
        run(tmp_path, settings(server, key=True))
    assert len(server.requests) == 1
    assert CANARY not in str(caught.value)


def test_the_key_reaches_the_endpoint_and_nothing_else(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("ENVHARNESS_TEST_KEY", CANARY)
    with FaultServer(author) as server:
        run(tmp_path, settings(server, key=True))
    assert all(CANARY in request.headers["authorization"] for request in server.requests)
    assert all(CANARY not in json.dumps(request.body) for request in server.requests)
    for file in filter(Path.is_file, tmp_path.rglob("*")):
        assert CANARY.encode() not in file.read_bytes()
    with RunStore.read(tmp_path) as store:
        assert CANARY.encode() not in store.export_canonical()
