from __future__ import annotations

import io
import json
from collections.abc import Iterator
from pathlib import Path
from typing import cast

import pytest
from rich.console import Console

from envharness.cli.app import run as command
from envharness.core.types import JsonDict
from envharness.core.usage import Usage
from envharness.report import write_report
from envharness.report.run import load_run
from envharness.report.terminal import run_tables
from envharness.rigger.results import DESIGNER_MODEL, put_budget
from envharness.rollouts.ledger import Budget
from envharness.store.database import RunStore
from report.build_run import CONFIG, episode, open_store, put_result, put_summary, result
from report.page_reader import Page

PLAYED = Usage(calls=1_200, prompt=3_456_789, cached=12_345, completion=654_321, reasoning=77_777, cost=1.25)
DESIGNED = Usage(calls=3, prompt=9_000, completion=1_000, cost=0.5)


@pytest.fixture
def asked_run(tmp_path: Path) -> Iterator[RunStore]:
    """A finished run of one task whose policy and designer asked two models."""
    model: JsonDict = {"model": "small-player", "endpoints": [{"base_url": "http://127.0.0.1:1/v1"}]}
    config: JsonDict = {**CONFIG, "policy": {"id": "llm", "options": {"model": model}}}
    with open_store(tmp_path / "run", config) as store:
        put_result(store, "template", result("a", 5, 3))
        put_summary(store, "template")
        store.put_episode("k", "rig", episode("a", won=True).model_copy(update={"usage": PLAYED}))
        usage = cast("JsonDict", DESIGNED.model_dump(mode="json"))
        store.put_record("model_call", "c", {"role": "designer", "task": "a", "answer": None, "usage": usage})
        store.put_record(DESIGNER_MODEL, "template", {"model": "large-writer", "policys_own": False})
        put_budget(store, Budget(tokens=5_000_000))
        yield store


def test_the_page_says_what_each_role_used_and_which_models(asked_run: RunStore, tmp_path: Path) -> None:
    write_report(asked_run, tmp_path / "report.html")
    page = Page((tmp_path / "report.html").read_text(encoding="utf-8"))
    page.check_harmless()
    assert "policy llm (small-player) · designer template (large-writer, not the policy's)" in page.text
    assert "4,121,110 tokens, cost 1.75" in page.text.split("Spent", 1)[1].split("Shares are over", 1)[0]
    table = page.text.split("What the models used", 1)[1]
    for cell in ("1,200", "3,456,789", "12,345", "654,321", "77,777", "1.25", "9,000", "large-writer"):
        assert cell in table
    assert "4,121,110 of 5,000,000 tokens" in table


def test_the_terminal_says_it_in_80_columns(asked_run: RunStore) -> None:
    output = io.StringIO()
    Console(file=output, width=80).print(run_tables(load_run(asked_run)))
    lines = output.getvalue().splitlines()
    assert all(len(row) <= 80 for row in lines)
    [row] = [row for row in lines if row.startswith("│ policy")]
    numbers = ["policy", "1,200", "3,456,789", "12,345", "654,321", "77,777", "1.25"]
    assert [cell.strip() for cell in row.strip("│").split("│")] == numbers
    assert "policy model: small-player" in lines
    assert "budget of the last start: 4,121,110 of 5,000,000 tokens" in lines


def test_show_gives_it_as_json(asked_run: RunStore, capsys: pytest.CaptureFixture[str]) -> None:
    assert command(["show", str(asked_run.folder), "--json"]) == 0
    shown = json.loads(capsys.readouterr().out)
    assert Usage.model_validate(shown["usage"]["policy"]) == PLAYED
    assert Usage.model_validate(shown["usage"]["designer"]) == DESIGNED
    assert (shown["finished"], shown["budget"]["tokens"]) == (True, 5_000_000)


def test_where_no_model_was_asked_there_is_no_word_of_tokens(finished_run: RunStore, tmp_path: Path) -> None:
    write_report(finished_run, tmp_path / "report.html")
    text = Page((tmp_path / "report.html").read_text(encoding="utf-8")).text
    assert "tokens" not in text
    output = io.StringIO()
    Console(file=output, width=80).print(run_tables(load_run(finished_run)))
    assert "What the models used" not in output.getvalue()


def test_a_policy_whose_model_is_its_own_affair_is_reported_all_the_same(tmp_path: Path) -> None:
    config: JsonDict = {**CONFIG, "policy": {"id": "other:Policy", "options": {"model": 7}}}
    with open_store(tmp_path / "run", config) as store:
        put_result(store, "template", result("a", 5, 3))
        run = load_run(store)
    assert (run.policy, run.policy_model) == ("other:Policy", "")
