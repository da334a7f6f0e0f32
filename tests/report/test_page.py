from __future__ import annotations

import os
from collections import Counter
from pathlib import Path

import pytest

from envharness.core.errors import StoreError
from envharness.core.types import JsonDict
from envharness.report import write_report
from envharness.report.run import load_run
from envharness.rigger.records import Candidate, CandidateCheck, Round
from envharness.store.database import RunStore
from report.build_run import measured, open_store, put_episodes, put_result, put_summary, result, step
from report.page_reader import Page


def report(store: RunStore, folder: Path) -> Page:
    write_report(store, folder / "report.html")
    return Page((folder / "report.html").read_text(encoding="utf-8"))


def tile(page: Page, name: str) -> str:
    """The text of a headline figure, from its name to the next."""
    names = [text for element, text in page.words if element == "dt"]
    following = [*names[names.index(name) + 1 :], "Shares are over"][0]
    return page.text.split(name, 1)[1].split(following, 1)[0]


def test_headline_holds_the_shares_over_all_tasks_beside_the_null(finished_run: RunStore, tmp_path: Path) -> None:
    page = report(finished_run, tmp_path)
    assert "12\N{NO-BREAK SPACE}% → 88\N{NO-BREAK SPACE}%" in tile(page, "In band, before → after")
    assert "1 → 7 of 8 tasks, by the 5 rollouts" in tile(page, "In band, before → after")
    assert "1 of 8 tasks" in tile(page, "Identity designer, after")
    assert "3 of 8 tasks, 100 fresh rollouts each; identity 0" in tile(page, "Re-measured")
    assert "0 invalid · 1 min 12 s" in tile(page, "Spent")
    assert "ceiling 96" in page.text


def test_page_is_whole_and_loads_nothing(finished_run: RunStore, tmp_path: Path) -> None:
    page = report(finished_run, tmp_path)
    page.check_harmless()
    ids = Counter(page.ids())
    assert [name for name, count in ids.items() if count > 1] == []
    for name, attributes in page.elements:
        if name == "label":
            assert attributes["for"] in ids
        if name == "a":
            assert (attributes["href"] or "").removeprefix("#") in ids
        if name == "svg":
            assert attributes.get("aria-label") or attributes.get("aria-labelledby")
    policy = next(a["content"] for _, a in page.elements if a.get("http-equiv") == "Content-Security-Policy")
    assert (policy or "").startswith("default-src 'none'")


def test_a_task_shows_diagnosis_rounds_component_and_two_trajectories(finished_run: RunStore, tmp_path: Path) -> None:
    page = report(finished_run, tmp_path)
    part = page.text.split("hard-0002", 1)[1].split("hard-0003", 1)[0]
    for expected in (
        "It reaches for multiplication in 80 % of its turns.",
        "rollout 0, steps 0-2",
        "Nothing moved: take another type.",
        "changes something: passed: 9 of 30",
        'combine(left=8, operation="-", right=3)',
        "def filter_action(self, action, env_state):",
        "template ration_action · magnitude 0.375 · every = 3 · tool = combine",
        "A win and a loss on the accepted stack",
        "Numbers: 24 3 [the rest is hidden]",
        "Numbers: 24 3 1\nMoves left: 9",
        "nothing reached the environment",
        "contract#0 blocked: The multiplication key is stuck.",
        "contract#0 changed observation",
        "I will multiply first.",
        "a Stage replayed 1 action",
    ):
        assert expected in part, expected


def test_missing_null_and_fresh_rollouts_are_said_not_hidden(tmp_path: Path) -> None:
    with open_store(tmp_path / "run") as store:
        put_result(store, "template", result("a/b.game", 5, 3))
        page = report(store, tmp_path)
    assert "not run: there is no null" in tile(page, "Identity designer, after")
    assert "no fresh rollouts were asked for" in tile(page, "Re-measured")
    assert "read the share after as an upper bound" in page.text
    assert "This run has not finished" in page.text
    assert "a/b.game" in page.text


def test_a_run_of_the_null_alone_is_reported(tmp_path: Path) -> None:
    with open_store(tmp_path / "run") as store:
        put_result(store, "identity", result("a", 5, source=""))
        put_summary(store, "identity")
        run = load_run(store)
        assert (run.main.designer, run.null, run.finished) == ("identity", None, True)
        assert "Changes nothing: the identity." in report(store, tmp_path).text


def test_an_answer_without_a_candidate_is_not_shown_as_the_identity(tmp_path: Path) -> None:
    checks = [CandidateCheck(id="answer", passed=False, detail="cut at the token limit")]
    entry = Round(number=1, candidate=Candidate(), checks=checks, decision="refine", verdict="check_failed")
    with open_store(tmp_path / "run") as store:
        put_result(store, "template", result("a", 0).model_copy(update={"rounds": [entry]}))
        put_summary(store, "template")
        text = report(store, tmp_path).text
    assert "No candidate: the answer could not be used." in text
    assert "Changes nothing: the identity." not in text


def test_invalid_tasks_count_among_all_tasks(tmp_path: Path) -> None:
    lost = result("lost", 2).model_copy(update={"status": "invalid", "baseline": measured(2, valid=3)})
    with open_store(tmp_path / "run") as store:
        put_result(store, "template", result("won", 5, 3))
        put_result(store, "template", lost)
        page = report(store, tmp_path)
        assert load_run(store).main.figures.after.total == 2
    assert "0 → 1 of 2 tasks" in page.text
    assert "2 of 3 (2 invalid)" in page.text


def test_a_check_that_failed_and_a_round_without_rollouts_are_shown(tmp_path: Path) -> None:
    entry = Round.model_validate(
        {
            "number": 1,
            "candidate": Candidate(contract_source="class _Contract(Contract): pass"),
            "checks": [{"id": "reference_solves", "passed": False, "detail": "blocked at step 3"}],
            "decision": "reject",
            "verdict": "check_failed",
        }
    )
    with open_store(tmp_path / "run") as store:
        put_result(store, "template", result("a", 5).model_copy(update={"rounds": [entry]}))
        page = report(store, tmp_path)
    assert "no rollout paid for · check failed" in page.text
    assert "reference solves: failed: blocked at step 3" in page.text


def test_a_stack_built_on_earlier_components_is_named(tmp_path: Path) -> None:
    found = result("a", 5, 3)
    stacked = found.model_copy(update={"base_stack": found.base_stack.wrap("stage", actions=[])})
    with open_store(tmp_path / "run") as store:
        put_result(store, "template", stacked)
        assert "Innermost first: toy24 → stage" in report(store, tmp_path).text


def test_a_run_that_was_taken_back_is_one_clear_error(tmp_path: Path) -> None:
    with open_store(tmp_path / "run") as store:
        store.forget_empty()
    with RunStore.read(tmp_path / "run") as store, pytest.raises(StoreError, match="holds no run"):
        write_report(store, tmp_path / "report.html")
    assert not (tmp_path / "report.html").exists()


def test_a_record_of_another_form_is_one_clear_error(tmp_path: Path) -> None:
    with open_store(tmp_path / "run") as store:
        store.put_record("task_result", "template/a", {"task": "a"})
        with pytest.raises(StoreError, match="the result 'template/a' of this run is damaged: status"):
            write_report(store, tmp_path / "report.html")


def test_a_report_that_cannot_be_written_leaves_nothing(finished_run: RunStore, tmp_path: Path) -> None:
    (tmp_path / "file").write_text("x")
    with pytest.raises(StoreError, match="cannot"):
        write_report(finished_run, tmp_path / "file" / "report.html")
    assert sorted(os.listdir(tmp_path)) == ["file", "run"]  # noqa: PTH208  names are what is compared


def test_a_reader_gets_the_same_report_as_the_writer(finished_run: RunStore, tmp_path: Path) -> None:
    write_report(finished_run, tmp_path / "writer.html")
    with RunStore.read(finished_run.folder) as reader:
        write_report(reader, tmp_path / "reader.html")
    assert (tmp_path / "writer.html").read_bytes() == (tmp_path / "reader.html").read_bytes()


def test_long_trajectories_are_cut_openly(tmp_path: Path) -> None:
    long = [step(number, f"{number} " + "word " * 2_000, policy_text="because " * 500) for number in range(60)]
    with open_store(tmp_path / "run") as store:
        found = result("a", 5, 3)
        put_result(store, "template", found)
        put_episodes(store, found, steps=long)
        page = report(store, tmp_path)
    assert "24 turns cut" in page.text
    assert "characters cut" in page.text
    assert (tmp_path / "report.html").stat().st_size < 600_000


def test_tries_that_failed_a_free_check_stand_within_their_round(tmp_path: Path) -> None:
    found = result("a", 5, 3)
    first, last = found.rounds
    parameters: JsonDict = {"opens_with": [{"name": "look", "kwargs": {"at": "door"}}], "every": [1, 2]}
    candidate = last.candidate.model_copy(update={"parameters": parameters})
    unpaid = last.model_copy(
        update={"candidate": candidate, "measured": None, "decision": "refine", "verdict": "unsolvable"}
    )
    with open_store(tmp_path / "run") as store:
        put_result(store, "template", found.model_copy(update={"rounds": [first, unpaid, unpaid, last]}))
        page = report(store, tmp_path)
    heads = [text for _, text in page.words if text.startswith(("Round ", "Attempt "))]
    assert heads == ["Round 1", "Round 2", "Attempt 1", "Attempt 2"]
    assert "3 of 5 won · in band · after 2 unpaid attempts" in page.text
    assert "every = [1, 2]" in page.text
    assert 'opens_with = look(at="door")' in page.text


def test_where_no_weakness_stands_out_the_page_has_no_empty_table(tmp_path: Path) -> None:
    with open_store(tmp_path / "run") as store:
        put_result(store, "template", result("a", 5, flaw="none"))
        page = report(store, tmp_path)
    assert "0 of the 3 weaknesses that were looked for stood out" in page.text
    assert "accepted against it" not in page.text
