from __future__ import annotations

from pathlib import Path

import pytest

from campaign.outcomes import outcome, sample
from envharness.campaign.compare import Comparison, DesignerFigures
from envharness.campaign.figures import Sample, audit_of, curve_of, differences_of, estimates_of
from envharness.campaign.page import PAGE, RESULT, markdown, write_comparison
from envharness.campaign.tables import all_tables, warnings
from envharness.campaign.variety import variety_of
from envharness.core.usage import Usage

GOOD = outcome(rollouts=10, fresh=True, probability=0.9)
LUCKY = outcome(rollouts=10, fresh=False, probability=0.1)
POOR = outcome(accepted=False, rollouts=30, fresh=False, probability=0.0)
SAMPLES = {
    "template": sample([[GOOD]] * 6 + [[LUCKY]] * 3 + [[POOR]]),
    "random": sample([[GOOD]] * 2 + [[POOR]] * 8),
    "identity": sample([[POOR]] * 10),
}


def comparison(
    samples: dict[str, Sample] = SAMPLES, *, policies: tuple[str, ...] = ("solver",), fresh: int = 100, invalid: int = 0
) -> Comparison:
    varieties = variety_of({name: [o.component for o in one.flat if o.component] for name, one in samples.items()})
    figures = [
        DesignerFigures(
            policy=policy,
            designer=name,
            accepted=sum(o.accepted for o in one.flat),
            rollouts=sum(o.rollouts for o in one.flat),
            invalid=invalid,
            gave_up=1,
            unspent=5,
            measures=estimates_of(one, fresh=fresh > 0),
            audited=audit_of(one, (0.4, 0.6)),
            curve=curve_of(one, 30, fresh=fresh > 0),
            variety=varieties[name],
            usage={},
        )
        for policy in policies
        for name, one in samples.items()
    ]
    return Comparison(
        run_dir="runs/x",
        environment="toy24",
        tasks=[f"t{number}" for number in range(10)],
        seeds=[1],
        policies=list(policies),
        designers=list(samples),
        reference="random",
        band=(0.4, 0.6),
        rollouts=5,
        budget=30,
        remeasure=fresh,
        played=1234,
        resamples=400,
        figures=figures,
        differences=[
            entry for policy in policies for entry in differences_of(policy, samples, "random", fresh=fresh > 0)
        ],
    )


@pytest.mark.parametrize("fresh", [0, 100])
@pytest.mark.parametrize("policies", [("solver",), ("strong", "weak")])
def test_every_row_has_a_cell_under_every_head(fresh: int, policies: tuple[str, ...]) -> None:
    tables = all_tables(comparison(policies=policies, fresh=fresh))
    assert len(tables) == 5 * len(policies) + (len(policies) > 1)
    assert len({table.title for table in tables}) == len(tables)
    for table in tables:
        assert table.rows
        assert {len(row) for row in table.rows} == {len(table.heads)}
        assert fresh or "held" not in " ".join([*table.heads, *(cell for row in table.rows for cell in row)])


def test_the_page_says_what_the_numbers_are(tmp_path: Path) -> None:
    found = comparison()
    write_comparison(found, tmp_path)
    page = (tmp_path / PAGE).read_text()
    assert page == markdown(found)
    assert "toy24, 10 tasks, 1 seed, at most 30 rollouts a task, 100 fresh rollouts a task after" in page
    # As counted 9 of 10, re-measured 6 of 10, of the 9 accepted 6 held; the audit knows 50 of 100 from 80 of 100 well.
    shares = next(line for line in page.splitlines() if line.startswith("| template |"))
    cells = [cell.strip().split(" (")[0] for cell in shares.strip("|").split("|")]
    assert [cell.replace("\N{NO-BREAK SPACE}", " ") for cell in cells] == [
        "template", "0 %", "90 %", "90 %", "60 %", "67 %", "67 %",
    ]  # fmt: skip
    # 120 rollouts for 9 accepts, of which 6 held.
    assert "| template | 9 | 120 | 12.0 (10.0 to" in page
    assert "| 13.3 (10.0 to" in page
    assert "| 20.0 (" in page
    # Nothing accepted has no price.
    assert "| identity | 0 | 300 | 30.0 (30.0 to 30.0) | - | - |" in page
    assert Comparison.model_validate_json((tmp_path / RESULT).read_bytes()) == found


def test_ceilings_are_those_of_the_rollouts() -> None:
    """12 of 32 outcomes of five fair tosses are outside the band."""
    note = all_tables(comparison())[0].note.replace("\N{NO-BREAK SPACE}", " ")
    assert "in band in 62 % of batches of 5 rollouts, and in 96 % of 100 fresh ones" in note
    assert "were each won exactly half the time it would show template" in note


def test_what_models_used_is_shown_where_there_were_some() -> None:
    found = comparison()
    assert "What the models used" not in markdown(found)
    figures = [
        entry.model_copy(update={"usage": {"designer": Usage(calls=3, prompt=1000, completion=200, cost=0.5)}})
        for entry in found.figures[:1]
    ]
    page = markdown(found.model_copy(update={"figures": figures}))
    assert "| template | solver | designer | 3 | 1,200 | 0.5 |" in page


def test_undecided_tasks_are_warned_of() -> None:
    assert warnings(comparison()) == []
    page = markdown(comparison(invalid=2))
    assert page.count("2 tasks undecided on the machinery's side") == 3


def test_two_designers_need_no_adjustment() -> None:
    two = {name: SAMPLES[name] for name in ("template", "random")}
    heads = {table.title: table.heads for table in all_tables(comparison(two))}
    assert "adjusted" not in heads["Against random"]
