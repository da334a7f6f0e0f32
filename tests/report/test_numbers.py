from __future__ import annotations

import pytest

from envharness.report.numbers import Band, by_round, figures_of, flaw_of
from envharness.rigger.records import TaskResult
from envharness.rigger.summary import Share
from report.build_run import measured, result

BAND = Band(0.4, 0.6)


@pytest.mark.parametrize(
    ("wins", "asked", "inside"),
    [
        (2, 5, True),
        (3, 5, True),
        (1, 5, False),
        (4, 5, False),
        (40, 100, True),
        (60, 100, True),
        (61, 100, False),
        (12, 20, True),
    ],
)
def test_band_includes_both_ends_exactly(wins: int, asked: int, inside: bool) -> None:
    assert BAND.holds(measured(wins, asked)) is inside


def test_an_incomplete_measurement_is_never_in_band() -> None:
    assert not BAND.holds(measured(2, 5, valid=4))
    assert not BAND.holds(measured(0, 5, valid=0))
    assert not BAND.holds(None)


def test_ceiling_is_what_a_fair_coin_would_show() -> None:
    assert BAND.ceiling(5) == pytest.approx(0.625)
    assert BAND.ceiling(100) == pytest.approx(0.9648, abs=1e-4)
    assert BAND.ceiling(0) == 0.0


def test_every_share_is_over_all_tasks() -> None:
    tasks = [
        result("a", 5, 3, fresh=50),
        result("b", 0, 2, fresh=90),
        result("c", 3, fresh=50),
        result("d", 5),
        result("e", 2).model_copy(update={"baseline": measured(2, 5, valid=4), "status": "invalid"}),
    ]
    figures = figures_of(tasks, BAND)
    assert (figures.tasks, figures.accepted, figures.already_in_band, figures.rejected, figures.invalid) == (
        5,
        2,
        1,
        1,
        1,
    )
    assert figures.before == Share(1, 5)
    assert figures.after == Share(3, 5)
    assert figures.remeasured == Share(2, 5)
    assert figures.accepted_remeasured == Share(1, 2)
    assert figures.before_fresh is None
    assert (figures.deciding_rollouts, figures.fresh_rollouts) == (5, 100)


def test_figures_of_no_tasks_and_of_no_fresh_rollouts() -> None:
    empty = figures_of([], BAND)
    assert (empty.tasks, empty.before.value, empty.remeasured, empty.flaws) == (0, 0.0, None, ())
    assert figures_of([result("a", 5, 3)], BAND).remeasured is None


def test_flaws_found_and_flaws_only_looked_for() -> None:
    tasks = [result("a", 5, 3), result("b", 5), result("c", 5, flaw="repeats_actions"), result("d", 5, flaw="none")]
    flaws = {
        flaw.flaw: (flaw.tasks, flaw.accepted, round(flaw.mean_score, 2)) for flaw in figures_of(tasks, BAND).flaws
    }
    assert flaws == {"leans_on_action": (2, 1, 0.8), "repeats_actions": (1, 0, 0.3), "stops_early": (0, 0, 0.1)}
    assert next(iter(flaws)) == "leans_on_action"


def answering(found: TaskResult, flaw: str) -> TaskResult:
    """The same result, its components written against `flaw`."""
    rounds = [
        entry.model_copy(update={"candidate": entry.candidate.model_copy(update={"answers": flaw})})
        for entry in found.rounds
    ]
    return found.model_copy(update={"rounds": rounds})


def test_an_acceptance_is_credited_to_the_flaw_that_the_component_answers() -> None:
    tasks = [answering(result("a", 5, 3), "one_path"), answering(result("b", 5), "one_path"), result("c", 5, 3)]
    assert [flaw_of(task) for task in tasks] == ["one_path", "leans_on_action", "leans_on_action"]
    flaws = {flaw.flaw: (flaw.tasks, flaw.accepted) for flaw in figures_of(tasks, BAND).flaws}
    assert flaws["leans_on_action"] == (3, 1)
    assert flaws["one_path"] == (0, 1)


def test_a_component_that_does_not_say_answers_the_diagnosis_it_was_written_on() -> None:
    found = result("a", 5, 3)
    assert found.diagnosis is not None
    later = found.diagnosis.model_copy(update={"flaw": "stops_early"})
    rounds = [*found.rounds[:-1], found.rounds[-1].model_copy(update={"diagnosis": later})]
    assert flaw_of(found.model_copy(update={"rounds": rounds})) == "stops_early"
    assert not flaw_of(found.model_copy(update={"rounds": [], "diagnosis": None}))


def test_candidates_of_one_round_are_one_round() -> None:
    found = result("a", 5, 3)
    first, second = found.rounds
    unpaid = second.model_copy(update={"measured": None, "decision": "refine", "verdict": "check_failed"})
    tried = found.model_copy(update={"rounds": [first, unpaid, unpaid, second]})
    assert by_round(tried) == [[first], [unpaid, unpaid, second]]
