"""Nothing that a trace or a component says acts on the page or the terminal: it shows as text."""

from __future__ import annotations

import io
from pathlib import Path

import pytest
from rich.console import Console

from envharness.core.trace import ComponentEvent, TraceStep
from envharness.core.types import Action, JsonDict
from envharness.report import write_report
from envharness.report.run import load_run
from envharness.report.terminal import run_tables, task_detail, trajectory_text
from envharness.report.text import visible
from envharness.rigger.records import TaskResult
from envharness.store.database import RunStore
from report.build_run import CONFIG, open_store, put_episodes, put_result, put_summary, result, step
from report.page_reader import Page

PAYLOADS = [
    "</script><script>alert(1)</script>",
    "</style><img src=x onerror=alert(1)>",
    "</title></svg><iframe srcdoc='<script>1</script>'>",
    '" onmouseover="alert(1)" x=\'',
    "<!-- --><![CDATA[ <b>",
    "</pre></details><base href=//evil.example><meta http-equiv=refresh content=0>",
    "&lt;b&gt; &#x1b; &amp;",
    "\x1b[2J\x1b[31mred\x1b]0;owned\x07\x1b]8;;http://evil.example\x1b\\link",
    "\x9b31m\x90q\x9c",
    "[red]markup[/red] [link=http://evil.example]x[/link] [/] :smile:",
    "nul \x00 bell \x07 back \x08\x08 over \rwritten",
    "bidi \u202eevil\u202c \u2066x\u2069 \u200b zero",
    "{css} {{jinja}} {% raw %} %(x)s $x ${x} `x`",
]


def hostile_steps(payload: str) -> list[TraceStep]:
    plain = step(0, payload, raw=f"raw {payload}", policy_text=payload)
    loud = plain.model_copy(
        update={
            "step": 1,
            "action": Action(name=f"tool{payload}", kwargs={payload: payload}),
            "refused": payload,
            "blocked": payload,
            "events": [ComponentEvent(component=payload, kind="violation", hook=payload, detail=payload)],
        }
    )
    return [plain, loud]


def hostile_result(payload: str) -> TaskResult:
    found = result("task", 5, 3, fresh=50, source=f"# {payload}\nx = '''{payload}'''", flaw=payload)
    found = found.model_copy(update={"task": f"task {payload}", "reason": payload})
    assert found.diagnosis
    diagnosis = found.diagnosis.model_copy(
        update={"text": payload, "evidence": [payload], "scores": {payload: 1.0, "x": 0.5}}
    )
    rounds = [
        entry.model_copy(
            update={
                "feedback": payload,
                "verdict": payload,
                "checks": [check.model_copy(update={"id": payload, "detail": payload}) for check in entry.checks],
                "candidate": entry.candidate.model_copy(
                    update={
                        "rationale": payload,
                        "template": payload,
                        "parameters": {payload: payload},
                        "in_env_actions": [Action(name=payload, kwargs={"x": payload})],
                    }
                ),
            }
        )
        for entry in found.rounds
    ]
    return found.model_copy(update={"diagnosis": diagnosis, "rounds": rounds})


def hostile_run(folder: Path, payload: str) -> RunStore:
    config: JsonDict = {**CONFIG, "environment": {"id": payload}, "policy": {"id": payload}, "note": payload}
    store = open_store(folder, config)
    found = hostile_result(payload)
    put_result(store, "template", found)
    put_summary(store, "template")
    put_episodes(store, found.model_copy(update={"task": "task"}), steps=hostile_steps(payload))
    return store


@pytest.mark.parametrize("payload", PAYLOADS)
def test_page_shows_it_as_text(payload: str, tmp_path: Path) -> None:
    with hostile_run(tmp_path / "run", payload) as store:
        write_report(store, tmp_path / "report.html")
    source = (tmp_path / "report.html").read_text(encoding="utf-8")
    page = Page(source)  # which fails on an element that the report does not use, or one left open
    page.check_harmless()
    assert page.text.count(visible(payload)) >= 12
    assert not set(source) & {chr(code) for code in [*range(9), *range(11, 32), *range(127, 160), 0x202E, 0x2066]}


@pytest.mark.parametrize("payload", PAYLOADS)
def test_terminal_shows_it_as_text(payload: str, tmp_path: Path) -> None:
    output = io.StringIO()
    console = Console(file=output, force_terminal=False, width=400, emoji=True, markup=True)
    with hostile_run(tmp_path / "run", payload) as store:
        run = load_run(store)
        console.print(run_tables(load_run(store)))
        console.print(task_detail(run.main.results[0], run.band))
        stored = store.get_episode("task-0")
        assert stored
        console.print(trajectory_text(stored))
    printed = output.getvalue()
    assert visible(payload).split("\n")[0].strip()[:60] in printed
    assert not set(printed) & {chr(code) for code in [*range(10), *range(11, 32), *range(127, 160), 0x202E, 0x2066]}


def test_a_coloured_terminal_gets_no_sequence_but_our_own(tmp_path: Path) -> None:
    """On a real terminal rich writes colours; the trace's own sequences must not be among them."""
    output = io.StringIO()
    console = Console(file=output, force_terminal=True, width=400, color_system="standard")
    with hostile_run(tmp_path / "run", "\x1b]0;owned\x07\x1b[2J") as store:
        console.print(run_tables(load_run(store)))
        console.print(task_detail(load_run(store).main.results[0], load_run(store).band))
    printed = output.getvalue()
    assert "\x1b[" in printed, "the control: colours were written"
    assert "\x1b]" not in printed
    assert "\x1b[2J" not in printed
    assert "␛]0;owned␇␛[2J" in printed


def test_a_line_of_a_megabyte_is_cut_and_says_so(tmp_path: Path) -> None:
    with hostile_run(tmp_path / "run", "A" * 500_000 + "<b>" + "B" * 500_000) as store:
        write_report(store, tmp_path / "report.html")
        console = Console(file=io.StringIO(), width=200)
        console.print(run_tables(load_run(store)))
    page = Page((tmp_path / "report.html").read_text(encoding="utf-8"))
    page.check_harmless()
    assert "characters cut" in page.text
    assert (tmp_path / "report.html").stat().st_size < 400_000
