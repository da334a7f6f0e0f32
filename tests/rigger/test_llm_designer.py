"""The LLM designer in whole runs: it writes, is told what came back, is bounded, and is never paid for twice."""

from __future__ import annotations

import json
import sqlite3
from pathlib import Path
from typing import Any, cast

import pytest

from envharness.core.errors import (
    BudgetExhaustedError,
    ConfigError,
    ContentFilterError,
    ContextTooLongError,
    OverloadedError,
    ProviderRefusedError,
    StoreError,
)
from envharness.core.policy import PolicySpec
from envharness.core.types import JsonDict
from envharness.llm.chat import ChatAnswer, ChatRequest
from envharness.rigger.config import DesignerConfig, RigConfig
from envharness.rigger.designers.base import build_designer
from envharness.rigger.designers.llm import LanguageModelDesigner
from envharness.rigger.loop import rig
from envharness.rigger.records import RigSummary, TaskResult
from envharness.rigger.results import DESIGNER_MODEL, RESULT, load_results
from envharness.rollouts.engine import make_engine
from envharness.rollouts.ledger import MODEL_CALL
from envharness.store.database import RunStore
from envharness.store.schema import DATABASE_FILE
from rigger.author import CANDIDATE, DIAGNOSIS, MODEL, STAGED, STUCK, Answer, Author, well_written
from rigger.build import config

FLYING: JsonDict = {**STAGED, "in_env_actions": [{"name": "fly", "kwargs": {}}]}


def sourced(source: str) -> JsonDict:
    return {**CANDIDATE, "contract_source": source}


def settings(**fields: Any) -> RigConfig:
    options: JsonDict = {"model": MODEL, **fields.pop("options", {})}
    designer = DesignerConfig(id=fields.pop("id", "llm"), options=options)
    return config(designer=designer, null=False, **fields)


def run(folder: Path, how: RigConfig, author: Author) -> tuple[RigSummary, bytes]:
    recorded = cast("JsonDict", how.model_dump(mode="json"))
    with RunStore.open(folder, config=recorded, command="rig") as store, make_engine() as engine:
        summary = rig(how, store=store, engine=engine, make_client=author.make)
        return summary, store.export_canonical()


def result_of(folder: Path, designer: str = "llm") -> TaskResult:
    with RunStore.read(folder) as store:
        return load_results(store, designer)[0]


def test_it_diagnoses_writes_is_measured_and_its_losses_are_labelled(tmp_path: Path) -> None:
    author = Author(well_written)
    run(tmp_path, settings(rounds=3), author)
    result = result_of(tmp_path)
    assert result.baseline.successes == 5
    first = result.rounds[0]
    assert first.candidate.contract_source.strip() == STUCK.strip()
    assert first.measured is not None
    assert first.diagnosis is not None
    assert (first.diagnosis.flaw, first.diagnosis.text) == ("gives_up", "It rests at the first setback.")
    # Step 99 was never played, so it is not cited.
    assert first.diagnosis.evidence == ["rollout 0, steps 0, 1: walks without a setback"]
    assert result.diagnosis is not None
    assert result.diagnosis.flaw == "gives_up"
    lost = first.measured.valid - first.measured.successes
    assert len(first.failures) == lost > 0
    shift = first.shifts[0]
    assert (shift.label, shift.predicted, shift.before, shift.after) == ("gave_up", "more", 0, lost)
    assert shift.observed == "more"
    assert author.purposes()[:3] == [
        "round-1/attempt-0/diagnose",
        "round-1/attempt-0/write",
        "round-1/attempt-0/failures",
    ]
    assert author.closed


def test_every_call_is_in_the_store_with_its_usage_before_the_next_step(tmp_path: Path) -> None:
    author = Author(well_written)
    run(tmp_path, settings(rounds=1), author)
    with RunStore.read(tmp_path) as store:
        kept = dict(store.records(MODEL_CALL))
        assert dict(store.records(DESIGNER_MODEL)) == {
            "llm": {"model": "author (scripted)", "policys_own": False},
        }
    assert len(kept) == len(author.asked) == 3
    for body in kept.values():
        answer = cast("JsonDict", body["answer"])
        assert cast("JsonDict", answer["usage"])["prompt"] == 100
        assert (body["role"], body["task"]) == ("designer", "hall-0")


def test_a_damaged_answer_in_the_store_is_named(tmp_path: Path) -> None:
    run(tmp_path, settings(rounds=1), Author(well_written))
    with sqlite3.connect(tmp_path / DATABASE_FILE) as database:
        (key, body), *_ = database.execute("SELECT key, body FROM records WHERE kind = ?", (MODEL_CALL,)).fetchall()
        damaged = json.dumps(json.loads(body) | {"answer": {"text": 5}})
        database.execute("UPDATE records SET body = ? WHERE kind = ? AND key = ?", (damaged, MODEL_CALL, key))
        database.execute("DELETE FROM records WHERE kind = ?", (RESULT,))  # a decided task is not planned again
    database.close()
    with pytest.raises(StoreError, match="a model's answer in this run is damaged: text:"):
        run(tmp_path, settings(rounds=1), Author(well_written))


def test_a_run_that_dies_at_any_call_goes_on_without_paying_for_one_again(tmp_path: Path) -> None:
    whole = Author(well_written)
    _, content = run(tmp_path / "whole", settings(rounds=2), whole)
    assert len(whole.asked) >= 3
    for kill_at in range(len(whole.asked)):
        second = Author(well_written)
        folder = tmp_path / f"killed-{kill_at}"
        with pytest.raises(ProviderRefusedError):
            run(folder, settings(rounds=2), Author(well_written, refuses_after=kill_at))
        _, resumed = run(folder, settings(rounds=2), second)
        assert resumed == content
        assert second.purposes() == whole.purposes()[kill_at:]


@pytest.mark.parametrize(
    ("answer", "said"),
    [
        ("I will not help with that.", "no tool call and no JSON object in the answer ('I will not help with that.')"),
        ("", "empty answer"),
        ('{"flaw": "x", "explanation": ', "no tool call and no JSON object"),
        ({"weakness": "x"}, "the JSON has no 'flaw' at its top level"),
        ({**DIAGNOSIS, "evidence": []}, "evidence: List should have at least 1 item"),
        ({**DIAGNOSIS, "evidence": [{"rollout": 9, "steps": [1]}]}, "names no step of the rollouts shown (rollout 9"),
        ({**DIAGNOSIS, "direction": "sideways"}, "direction: String should match pattern"),
        (ChatAnswer(text='{"flaw": "it', finish_reason="length"), "cut at the token limit (sampling.max_tokens)"),
        (ContentFilterError("no"), "the provider's filter refused: no"),
        ('{"flaw":' * 20000, "no tool call and no JSON object"),
    ],
)
def test_what_is_no_diagnosis_is_a_failed_check_and_bounded(tmp_path: Path, answer: Answer, said: str) -> None:
    def write(request: ChatRequest) -> Answer:
        return dict(answer) if isinstance(answer, dict) else answer

    author = Author(write)
    run(tmp_path, settings(), author)
    result = result_of(tmp_path)
    assert result.status == "rejected"
    assert result.reason.startswith("no usable answer of the designer in 2 rounds; the last: ")
    assert said in result.reason
    assert [entry.verdict for entry in result.rounds] == ["check_failed"] * 8
    assert all(entry.measured is None for entry in result.rounds)
    assert said in result.rounds[0].feedback
    assert said[:30] in author.asked[1].messages[-1].content, "the next attempt is told"
    assert len(author.asked) == 8, "two rounds of four attempts, and no second call after a bad first one"


@pytest.mark.parametrize(
    ("answer", "check"),
    [
        ("nothing to say", "answer"),
        ({"in_env_actions": [], "contract_source": "", "rationale": "accept"}, "changes_something"),
        (sourced("class _Contract(Contract:"), "compiles"),
        (sourced("import os\nclass _Contract(Contract): pass"), "compiles"),
        (sourced(STUCK.replace("extras", "xtras")), "dry_run"),
        (sourced(STUCK.replace("walk on", "fly")), "changes_something"),
        (sourced(STUCK.replace("LIMIT = 2", "LIMIT = 99")), "reference_solves"),
        (FLYING, "replays"),
    ],
)
def test_a_candidate_that_fails_a_check_goes_back_three_times_and_costs_no_rollout(
    tmp_path: Path, answer: Answer, check: str
) -> None:
    author = Author(lambda request: well_written(request, write=dict(answer) if isinstance(answer, dict) else answer))
    summary, _ = run(tmp_path, settings(rounds=1), author)
    result = result_of(tmp_path)
    assert result.status == "rejected"
    assert summary.rollouts == 5, "the baseline alone"
    assert [[c.id for c in entry.checks if not c.passed] for entry in result.rounds] == [[check]] * 4
    assert author.purposes() == ["round-1/attempt-0/diagnose", *(f"round-1/attempt-{n}/write" for n in range(4))]
    last = author.asked[-1].messages[-1].content
    assert "Attempt 3 of this round came back" in last
    assert result.rounds[0].feedback[:60] in last
    assert {entry.diagnosis.flaw for entry in result.rounds if entry.diagnosis} == {"gives_up"}


def test_the_next_round_is_told_what_the_last_one_measured(tmp_path: Path) -> None:
    loose = sourced(STUCK.replace("LIMIT = 2", "LIMIT = 3"))
    author = Author(lambda request: well_written(request, write=dict(loose)))
    run(tmp_path, settings(rounds=2, seed=2), author)
    entry = result_of(tmp_path).rounds[0]
    assert entry.decision == "refine", "choose another seed: this one accepts the first round"
    later = next(request for request in author.asked if request.key.endswith("round-2/attempt-0/diagnose"))
    opening = later.messages[1].content
    assert entry.feedback in opening
    assert "LIMIT = 3" in opening
    assert "persistence/gave_up" in opening
    assert "latest round:" in opening


def test_a_model_that_nobody_answers_for_decides_nothing_and_is_asked_again(tmp_path: Path) -> None:
    down = Author(lambda _: OverloadedError("503"))
    run(tmp_path, settings(rounds=1), down)
    result = result_of(tmp_path)
    assert result.status == "invalid"
    assert result.reason == "the designer's model did not answer: OverloadedError: 503"
    assert len(down.asked) == 1
    up = Author(well_written)
    run(tmp_path, settings(rounds=1), up)
    assert result_of(tmp_path).status in {"accepted", "rejected"}


@pytest.mark.parametrize("error", [ProviderRefusedError("401"), BudgetExhaustedError("spent")])
def test_what_ends_a_run_ends_it_at_once_and_keeps_what_is_done(tmp_path: Path, error: Exception) -> None:
    author = Author(lambda request: well_written(request, write=error))
    with pytest.raises(type(error)):
        run(tmp_path, settings(tasks=["hall-0"]), author)
    with RunStore.read(tmp_path) as store:
        assert len(list(store.records(MODEL_CALL))) == 1
        assert len(list(store.episodes(phase="rig/baseline"))) == 5


def test_evidence_that_does_not_fit_is_made_smaller(tmp_path: Path) -> None:
    def short(request: ChatRequest) -> Answer:
        size = sum(len(message.content) for message in request.messages)
        return ContextTooLongError(f"{size}") if size > 12_500 else well_written(request)

    author = Author(short)
    run(tmp_path, settings(rounds=1, options={"evidence_tokens": 3000}), author)
    assert result_of(tmp_path).rounds[0].measured is not None
    again = Author(short)
    run(tmp_path, settings(rounds=1, options={"evidence_tokens": 3000}), again)
    assert again.asked == [], "a prompt that is too long is not sent twice"

    hopeless = Author(lambda _: ContextTooLongError("4096 tokens"))
    run(tmp_path / "hopeless", settings(rounds=1), hopeless)
    assert "does not fit the designer's model: 4096 tokens" in result_of(tmp_path / "hopeless").reason
    assert len(hopeless.asked) == 1, "there is so little evidence that half of the budget makes the same prompt"


def test_labels_that_fail_cost_nothing_but_themselves(tmp_path: Path) -> None:
    author = Author(lambda request: well_written(request, failures="I cannot tell."))
    run(tmp_path, settings(rounds=1), author)
    entry = result_of(tmp_path).rounds[0]
    assert entry.measured is not None
    assert (entry.failures, entry.shifts) == ([], [])
    quiet = Author(well_written)
    run(tmp_path / "off", settings(rounds=1, options={"label_failures": False}), quiet)
    assert quiet.purposes() == ["round-1/attempt-0/diagnose", "round-1/attempt-0/write"]


@pytest.mark.parametrize("form", ["tool", "json_schema", "json"])
def test_each_answer_form_asks_for_what_it_can_be_given(tmp_path: Path, form: str) -> None:
    author = Author(well_written)
    run(tmp_path, settings(rounds=1, options={"answer_form": form}), author)
    assert result_of(tmp_path).rounds[0].measured is not None
    assert all(bool(request.tools) == (form == "tool") for request in author.asked)
    assert all((request.json_schema is not None) == (form == "json_schema") for request in author.asked)


def test_the_designer_shares_the_policys_model_unless_told_otherwise() -> None:
    policy = PolicySpec(id="llm", options={"model": {**MODEL, "model": "shared"}, "format": "json_schema"})
    shared = build_designer(DesignerConfig(id="llm"), policy)
    assert isinstance(shared, LanguageModelDesigner)
    assert shared.model.model == "shared"
    own = build_designer(DesignerConfig(id="llm", options={"model": MODEL}), policy)
    assert isinstance(own, LanguageModelDesigner)
    assert own.model.model == "author"


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({}, "set designer.options.model"),
        ({"model": {"client": "telepathy"}}, r"designer\.options\.model\.client"),
        ({"model": MODEL, "patience": 0}, "patience"),
        ({"model": MODEL, "evidence_tokens": 10}, "evidence_tokens"),
        ({"model": MODEL, "answer_form": "verse"}, "answer_form"),
        (
            {"model": MODEL, "temper": 1},
            r"has no option 'temper' \(options: .*answer_form, .*label_failures, model, .*sampling\)$",
        ),
        ({"model": MODEL, "sampling": {"max_token": 9}}, r"options\.sampling\.max_token: .*\(it takes .*max_tokens"),
        ({"model": MODEL, "evidence_tokens": "many"}, r"does not take these values.*\(options: .*evidence_tokens"),
        (
            {"model": {"client": "openai", "model": "m", "endpoints": [{"base_url": "http://x", "api_key": "sk-1"}]}},
            "api_key",
        ),
    ],
)
@pytest.mark.parametrize("designer", ["llm", "exploring"])
def test_wrong_options_are_said_before_the_first_rollout(designer: str, options: JsonDict, message: str) -> None:
    with pytest.raises(ConfigError, match=message) as caught:
        build_designer(DesignerConfig(id=designer, options=options), PolicySpec(id="solver"))
    assert "sk-1" not in str(caught.value)
