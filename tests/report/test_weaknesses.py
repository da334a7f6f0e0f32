from __future__ import annotations

import sys
from pathlib import Path

import pytest

from envharness.bridges.toy24.weaknesses import WEAKNESSES
from envharness.core.registry import register
from envharness.report import write_report
from envharness.report.weaknesses import Weakness, declared_weaknesses
from report.build_run import CONFIG, open_store, put_result, result


def test_the_solver_declares_its_weaknesses() -> None:
    declared = {weakness.name: weakness for weakness in declared_weaknesses({"id": "solver", "options": {}})}
    assert {name: weakness.description for name, weakness in declared.items()} == WEAKNESSES
    assert not declared["fears_fractions"].has_template
    assert declared["repeats"].has_template


def test_a_weakness_that_is_turned_off_is_not_listed() -> None:
    names = [
        weakness.name for weakness in declared_weaknesses({"id": "solver", "options": {"repeats": 0, "shallow": 1}})
    ]
    assert "repeats" not in names
    assert "shallow" in names


@pytest.mark.parametrize("policy", [None, "", "nobody", {"id": "random"}, {"id": 3}, {"options": {}}, [], "scripted"])
def test_a_policy_that_declares_none_has_none(policy: object) -> None:
    assert declared_weaknesses(policy) == ()  # pyright: ignore[reportArgumentType]  any JSON may stand there


def test_a_report_never_imports_what_a_run_names(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "hostile_policy.py").write_text("raise SystemExit('imported')")
    monkeypatch.setattr(sys, "path", [str(tmp_path), *sys.path])
    assert declared_weaknesses({"id": "hostile_policy:Policy"}) == ()
    assert "hostile_policy" not in sys.modules


def test_weaknesses_may_stand_in_the_policys_own_module(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    lines = ("class Policy: ...", "WEAKNESSES = {'sleepy': 'nods off'}", "SHOWS_AS = {'sleepy': ('stops_early',)}")
    (tmp_path / "sleepy_policy.py").write_text("\n".join(lines))
    monkeypatch.setattr(sys, "path", [str(tmp_path), *sys.path])
    register("policy", "sleepy-for-report", "sleepy_policy:Policy")
    assert declared_weaknesses("sleepy-for-report") == (Weakness("sleepy", "nods off", ("stops_early",)),)


def test_a_weakness_is_found_by_what_it_shows_as_or_else_by_its_name() -> None:
    assert Weakness("favours", "", ("leans_on_action",)).is_among(["x", "leans_on_action"])
    assert not Weakness("repeats", "", ("leans_on_action",)).is_among(["repeats_actions"])
    assert Weakness("repeats", "").is_among(["repeats_actions"])
    assert Weakness("stops_too_early", "").is_among(["stops_early"])
    assert not Weakness("never_resets", "").is_among(["ignores_refusals", "stops_early"])
    assert not Weakness("favours", "").is_among([])


def test_the_report_says_which_of_all_were_found(tmp_path: Path) -> None:
    with open_store(tmp_path / "run", {**CONFIG, "policy": {"id": "solver", "options": {}}}) as store:
        put_result(store, "template", result("a", 5, 3, flaw="repeats_actions"))
        write_report(store, tmp_path / "report.html")
    source = (tmp_path / "report.html").read_text(encoding="utf-8")
    assert f"1 of the {len(WEAKNESSES)} weaknesses that the policy declares showed in a diagnosis" in source
    assert '<span class="badge good">found</span> <strong>repeats</strong>' in source
    assert '<span class="badge neutral">not found</span> <strong>fears fractions</strong>' in source
