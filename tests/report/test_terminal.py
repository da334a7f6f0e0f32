from __future__ import annotations

import io

import pytest
from rich.console import Console, RenderableType

from envharness.report.run import load_run
from envharness.report.terminal import common_folder, run_tables, task_detail, trajectory_text
from envharness.store.database import RunStore
from report.build_run import episode, step


def printed(*what: RenderableType, width: int = 120) -> str:
    output = io.StringIO()
    console = Console(file=output, width=width)
    console.print(*what)
    return output.getvalue().replace("\N{NO-BREAK SPACE}", " ")


def test_overview_shows_shares_the_null_and_every_task(finished_run: RunStore) -> None:
    text = printed(run_tables(finished_run))
    assert "12 % (1/8)" in text
    assert "88 % (7/8)" in text
    assert "38 % (3/8)" in text
    assert "identity" in text
    assert "1 min 12 s" in text
    assert [f"hard-{number:04d}" in text for number in range(8)] == [True] * 8
    assert "leans on action" in text


def test_overview_fits_a_narrow_terminal(finished_run: RunStore) -> None:
    assert all(len(row) <= 80 for row in printed(run_tables(finished_run), width=80).splitlines())


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
