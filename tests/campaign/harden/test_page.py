"""The page and the tables show what names and reasons hold as text, whatever it is."""

from __future__ import annotations

import io

from rich.console import Console

from envharness.campaign.harden.matrix import matrix
from envharness.campaign.harden.page import render
from envharness.campaign.harden.records import CaseResult, HardenResult, Pairs, Tally, TaskBaseline, Variant
from envharness.campaign.harden.terminal import result_tables

HOSTILE = "<script>alert(1)</script>[red]\x1b[2J"
PLAYED = Tally(asked=10, valid=8, won=4, steps=24, reasons={HOSTILE: 4})


def result() -> HardenResult:
    variant = Variant(id=f"tools/{HOSTILE}", kind="tools", what=HOSTILE)
    case = CaseResult(
        variant=variant.id,
        task=HOSTILE,
        status="played",
        detail=HOSTILE,
        baseline=PLAYED,
        played=PLAYED,
        pairs=Pairs(both=4, neither=4),
    )
    gone = case.model_copy(update={"status": "invalid", "played": Tally(), "pairs": Pairs()})
    return HardenResult(
        environment=HOSTILE,
        policy=HOSTILE,
        seed=0,
        rollouts_each=10,
        tasks=[TaskBaseline(task=HOSTILE, tally=PLAYED)],
        baseline=PLAYED,
        baseline_interval=(0.2, 0.8),
        rows=matrix([(variant, [case, gone])]),
        cases=[case, gone],
        left_out={"tools": 2},
        rollouts=20,
        invalid=4,
        seconds=1.0,
        run_dir="run",
    )


def test_no_name_acts_on_the_page() -> None:
    page = render(result(), {"policy": HOSTILE})
    assert "<script" not in page
    assert "\x1b" not in page
    assert "&lt;script&gt;" in page


def test_no_name_acts_on_the_terminal_and_what_is_missing_is_said() -> None:
    out = io.StringIO()
    Console(file=out, width=200, highlight=False).print(result_tables(result()))
    text = out.getvalue()
    assert "\x1b" not in text
    assert "[red]" in text
    assert "50 % (8 of 10)" in text.replace("\N{NO-BREAK SPACE}", " ")
    assert "2 further variants left out" in text
    assert "4 of 20 rollouts are invalid" in text
    assert "not measured" in text
