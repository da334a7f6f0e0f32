from __future__ import annotations

import io
from pathlib import Path

import pytest
from rich.console import Console, RenderableType

from envharness.report.numbers import Band
from envharness.report.run import load_run
from envharness.report.terminal import common_folder, run_tables, task_detail, trajectory_text
from envharness.rigger.records import CandidateCheck, Round, TaskResult
from envharness.store.database import RunStore
from report.build_run import episode, open_store, put_result, result, step


def printed(*what: RenderableType, width: int = 120) -> str:
    output = io.StringIO()
    console = Console(file=output, width=width)
    console.print(*what)
    return output.getvalue().replace("\N{NO-BREAK SPACE}", " ")


def test_overview_shows_shares_the_null_and_every_task(finished_run: RunStore) -> None:
    text = printed(run_tables(load_run(finished_run)))
    assert "12 % (1/8)" in text
    assert "88 % (7/8)" in text
    assert "38 % (3/8)" in text
    assert "identity" in text
    assert "1 min 12 s" in text
    assert [f"hard-{number:04d}" in text for number in range(8)] == [True] * 8
    assert "leans on action" in text


def test_overview_fits_a_narrow_terminal(finished_run: RunStore) -> None:
    assert all(len(row) <= 80 for row in printed(run_tables(load_run(finished_run)), width=80).splitlines())


def test_task_detail_shows_rounds_and_component(finished_run: RunStore) -> None:
    run = load_run(finished_run)
    text = printed(task_detail(run.main.results[2], run.band))
    assert "before 0 %, after 40 %" in text
    assert "re-measured 33 %, outside the band" in text
    assert "Round 2: accept, 2 of 5 won, in band" in text
    assert "feedback: Nothing moved" in text
    assert 'Stage: combine(left=8, operation="-", right=3)' in text
    assert "def filter_action(self, action, env_state):" in text


def test_trajectory_shows_turns_and_loses_its_middle() -> None:
    text = printed(trajectory_text(episode("task", won=False)))
    assert "lost: out of steps" in text
    assert '2 > combine(left=8, right=2, operation="*")' in text
    assert "blocked: The multiplication key is stuck." in text
    assert "contract#0 changed observation" in text
    long = episode("task", won=True, steps=[step(number, f"screen {number}.") for number in range(50)])
    assert "... 20 turns cut ..." in printed(trajectory_text(long))


@pytest.mark.parametrize(
    ("names", "folder"),
    [(["a/b/c", "a/b/d"], "a/b/"), (["a/bc", "a/bd"], "a/"), (["easy-1", "easy-2"], ""), (["a/b"], "a/"), ([], "")],
)
def test_what_all_task_names_begin_with_is_not_repeated(names: list[str], folder: str) -> None:
    assert common_folder(names) == folder


def with_an_unpaid_try(found: TaskResult) -> TaskResult:
    """The same result, with a candidate that failed a free check before the last one."""
    first, last = found.rounds
    candidate = last.candidate.model_copy(update={"contract_source": "UNPAID = 1", "template": "block_calls"})
    failed = CandidateCheck(id="reference_solves", passed=False, detail="lost")
    unpaid = Round(number=last.number, candidate=candidate, checks=[failed], decision="refine", verdict="unsolvable")
    return found.model_copy(update={"rounds": [first, unpaid, last]})


def test_one_source_is_printed_and_the_other_candidates_in_outline() -> None:
    text = printed(task_detail(with_an_unpaid_try(result("a", 5, 3)), Band()))
    assert text.count("def filter_action") == 1
    assert text.index("Round 2: accept") < text.index("def filter_action")
    assert "UNPAID" not in text
    assert "Round 2, unpaid attempt 1: template block_calls · magnitude 0.375" in text
    assert "check reference solves failed" in " ".join(text.split())
    rejected = printed(task_detail(result("a", 5), Band()))
    assert rejected.count("def filter_action") == 1


def test_rounds_are_counted_as_rounds_and_the_weakness_is_the_one_answered(tmp_path: Path) -> None:
    found = with_an_unpaid_try(result("only", 5, 3))
    last = found.rounds[-1]
    answering = last.model_copy(update={"candidate": last.candidate.model_copy(update={"answers": "one_path"})})
    with open_store(tmp_path / "run") as store:
        put_result(store, "template", found.model_copy(update={"rounds": [*found.rounds[:-1], answering]}))
        [row] = [row for row in printed(run_tables(load_run(store))).splitlines() if "only" in row]
        assert [cell.strip() for cell in row.strip("│").split("│")][-2:] == ["one path", "2"]


def test_where_no_weakness_stands_out_there_is_no_empty_table(tmp_path: Path) -> None:
    with open_store(tmp_path / "run") as store:
        put_result(store, "template", result("a", 5, flaw="none"))
        text = printed(run_tables(load_run(store)))
    assert "No weakness stood out on any task." in text
    assert "Weaknesses found" not in text
