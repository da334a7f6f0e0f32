from __future__ import annotations

import io
import json
from collections.abc import Iterator
from pathlib import Path

import pytest
from rich.console import Console

from envharness.cli.app import run as command
from envharness.core.trace import Episode, Outcome
from envharness.core.usage import Usage
from envharness.report import write_report
from envharness.report.run import load_run
from envharness.report.terminal import run_tables
from envharness.rigger.results import put_budget
from envharness.rollouts.ledger import Budget
from envharness.store.database import RunStore
from report.build_run import episode, open_store, put_result, result
from report.page_reader import Page


def lost(index: int) -> Episode:
    outcome = Outcome(kind="invalid", reason="policy_error", detail=f"turn 0: no [answer] {index}\x1b[2J")
    return Episode(task="a", index=index, seed=0, outcome=outcome)


@pytest.fixture
def paused_run(tmp_path: Path) -> Iterator[RunStore]:
    """A run whose budget was spent within the first baseline."""
    with open_store(tmp_path / "run") as store:
        for index in range(3):
            played = episode("a", won=index == 0, index=index)
            used = Usage(calls=1, prompt=400, completion=100)
            store.put_episode(f"k{index}", "rig/baseline", played.model_copy(update={"usage": used}))
        store.put_episode("k3", "rig/template/round-1", lost(3))
        store.put_episode("k4", "rig/template/round-1", lost(4))
        put_budget(store, Budget(tokens=1_000))
        yield store


def printed(store: RunStore) -> str:
    output = io.StringIO()
    Console(file=output, width=80).print(run_tables(load_run(store)))
    return output.getvalue()


def cells(text: str, phase: str) -> list[str]:
    [row] = [row for row in text.splitlines() if f"│ {phase} " in row]
    return [cell.strip() for cell in row.strip("│").split("│")][1:]


def test_a_run_without_a_finished_task_can_be_shown(paused_run: RunStore, capsys: pytest.CaptureFixture[str]) -> None:
    text = printed(paused_run)
    assert "This run has finished no task yet." in text
    assert cells(text, "rig/baseline") == ["3", "1", "2", "0"]
    assert cells(text, "rig/template/round-1") == ["2", "0", "0", "2"]
    assert "a: policy_error: turn 0: no [answer] 4␛[2J" in text.replace("\n", " ")
    assert "1,500 of 1,000 tokens" in text
    assert "Its budget is spent (1500 of 1000 tokens): raise 'budget'" in text
    assert command(["show", str(paused_run.folder)]) == 0
    assert command(["show", str(paused_run.folder), "--json"]) == 0
    shown = json.loads(capsys.readouterr().out.splitlines()[-1])
    assert (shown["tasks"], shown["finished"]) == ([], False)
    assert shown["phases"]["rig/baseline"]["won"] == 1


def test_a_task_of_it_that_is_asked_for_is_named(paused_run: RunStore, capsys: pytest.CaptureFixture[str]) -> None:
    assert command(["show", str(paused_run.folder), "--task", "a"]) == 2
    assert "has no finished task 'a' (none is finished yet)" in capsys.readouterr().err


def test_it_can_be_reported(paused_run: RunStore, tmp_path: Path) -> None:
    write_report(paused_run, tmp_path / "report.html")
    page = Page((tmp_path / "report.html").read_text(encoding="utf-8"))
    page.check_harmless()
    for expected in ("This run has finished no task yet.", "rig/baseline", "raise 'budget'", "1,500 of 1,000 tokens"):
        assert expected in page.text
    assert "In band" not in page.text


def test_a_run_that_has_played_nothing_says_so(tmp_path: Path) -> None:
    with open_store(tmp_path / "run") as store:
        text = printed(store)
    assert "No episode has been played yet." in text
    assert "the same `envharness rig` command goes on with it" in text


def test_a_run_with_some_tasks_says_how_to_go_on(paused_run: RunStore) -> None:
    put_result(paused_run, "template", result("b", 5, 3))
    text = printed(paused_run)
    assert "shares are over the tasks done so far" in text
    assert "raise 'budget'" in text
