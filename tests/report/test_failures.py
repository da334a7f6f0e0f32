"""The report shows what an LLM designer wrote, what it expected, and which model it was."""

from __future__ import annotations

from pathlib import Path

from envharness.report import write_report
from envharness.rigger.records import (
    Diagnosis,
    FailureLabel,
    FailureShift,
    PredictedChange,
    Prediction,
    Round,
    TaskResult,
)
from envharness.rigger.results import put_result
from envharness.store.database import RunStore
from report.build_run import CONFIG, result

HOSTILE = "<script>alert(1)</script>"


def designed() -> TaskResult:
    made = result("easy-0000", 5, 3)
    first, last = made.rounds
    written: Round = last.model_copy(
        update={
            "diagnosis": Diagnosis(flaw="gives_up", text=f"It gives up. {HOSTILE}", direction="harden"),
            "prediction": Prediction(
                success_rate=0.5, failures=[PredictedChange(axis="persistence", label="gave_up", change="more")]
            ),
            "failures": [
                FailureLabel(rollout=3, axis="persistence", label="gave_up", sentence=f"At step 2. {HOSTILE}")
            ],
            "shifts": [
                FailureShift(axis="persistence", label="gave_up", before=0, after=2, predicted="more", observed="more"),
                FailureShift(axis="limits", label="too_slow", before=0, after=0, predicted=None, observed="same"),
            ],
        }
    )
    return made.model_copy(update={"rounds": [first, written]})


def page(folder: Path, *, model: bool) -> str:
    with RunStore.open(folder, config={**CONFIG, "designer": {"id": "llm", "options": {}}}, command="rig") as store:
        put_result(store, "llm", designed())
        if model:
            store.put_record("designer_model", "llm", {"model": "big-one", "policys_own": False})
        write_report(store, folder / "report.html")
    return (folder / "report.html").read_text()


def test_predicted_and_observed_failures_stand_side_by_side(tmp_path: Path) -> None:
    text = page(tmp_path, model=True)
    assert "designer llm (big-one, not the policy&#x27;s)" in text or "designer llm (big-one, not the policy's)" in text
    assert "The designer expected a success rate of 0.50; measured 0.60." in text
    row = text.partition("persistence: gave up</th>")[2].partition("</tr>")[0]
    assert row == "<td>0</td><td>2</td><td>more</td><td>more</td><td>yes</td>"
    assert "It gives up." in text
    assert "<script" not in text


def test_a_designer_without_a_model_has_neither(tmp_path: Path) -> None:
    text = page(tmp_path, model=False)
    assert "designer llm</p>" in text or "designer llm ·" in text
