from __future__ import annotations

import random
from pathlib import Path

import pytest

from envharness.core.trace import Episode
from envharness.core.types import Observation
from envharness.rigger.checks import DryRun, check_compiles, dry_run
from envharness.rigger.designers.base import Evidence
from envharness.rigger.designers.template import choose_templates
from envharness.rigger.flaws import FLAWS
from envharness.rigger.templates import LIBRARY, Template
from envharness.sandbox import open_session
from rigger.build import CLEAR, FINISH, episode, evidence, mix, step


def wins() -> list[Episode]:
    plans = [[mix("1"), mix("2", "shake"), mix("1")], [mix("4"), mix("5"), mix("6", "shake"), mix("7")]]
    return [episode(plans[index % 2], index=index, won=True) for index in range(5)]


def losses() -> list[Episode]:
    end = step(4, FINISH, terminated=True)
    vain = step(0, mix("9"), info={"ineffective": True}, state={"number": 1, "items": ["thing 0"]})
    return [episode([mix("1"), vain, CLEAR, mix("2"), end], index=index, reason="ended") for index in range(5)]


def seen(template: Template) -> Evidence:
    if template.direction == "harden":
        return evidence(wins())
    return evidence(losses(), direction="scaffold", wins=((mix("1"), mix("2"), mix("3")),))


def total(template: Template, magnitude: float) -> DryRun | None:
    about = seen(template)
    candidate = template.build(about, magnitude)
    if candidate is None or not candidate.contract_source:
        return None
    return sum((dry_run(candidate, one) for one in about.baseline), DryRun())


by_id = pytest.mark.parametrize("template", LIBRARY, ids=lambda template: template.id)


def test_ids_are_unique_and_flaws_exist() -> None:
    assert len({template.id for template in LIBRARY}) == len(LIBRARY)
    known = {flaw.name for flaw in FLAWS} | {"none"}
    assert {flaw for template in LIBRARY for flaw in template.flaws} <= known


@by_id
def test_what_it_writes_compiles_and_survives_the_recorded_steps(template: Template) -> None:
    candidate = template.build(seen(template), 0.6)
    assert candidate is not None
    assert candidate.template == template.id
    assert candidate.rationale
    assert candidate.contract_source or candidate.in_env_actions
    if candidate.contract_source:
        assert check_compiles(candidate).passed
        for one in seen(template).baseline:
            dry_run(candidate, one)


@by_id
def test_full_magnitude_changes_recorded_steps_and_more_changes_no_less(template: Template) -> None:
    runs = [total(template, magnitude) for magnitude in (0.1, 0.4, 0.7, 1.0)]
    effects = [run.effects for run in runs if run is not None]
    if not effects:
        assert template.id == "detour"  # the one that is a Stage alone
        return
    assert effects[-1] > 0
    if template.id != "winning_prefix":  # what is played in advance needs no hint any more
        assert effects == sorted(effects)


@by_id
def test_the_same_evidence_gives_the_same_source_and_the_global_stream_is_untouched(template: Template) -> None:
    before = random.getstate()
    assert template.build(seen(template), 0.3) == template.build(seen(template), 0.3)
    assert random.getstate() == before


@by_id
def test_two_rollouts_of_one_history_meet_the_same_world(template: Template) -> None:
    candidate = template.build(seen(template), 0.5)
    assert candidate is not None
    one = seen(template).baseline[0]
    assert str(dry_run(candidate, one)) == str(dry_run(candidate, one))


def test_templates_without_material_say_so() -> None:
    empty = evidence([episode([], index=index) for index in range(3)], direction="scaffold")
    made = {template.id for template in LIBRARY if template.build(empty, 0.5) is not None}
    assert made.isdisjoint({"hint", "winning_prefix", "guard_ending", "detour", "block_calls", "require_first"})


def test_a_transient_failure_speaks_the_environments_language() -> None:
    vain = step(0, mix("9"), info={"ineffective": True}, shown=losses()[0].steps[0].shown.model_copy(
        update={"text": "Nothing happens: there is no 9.\nscreen"}
    ))  # fmt: skip
    about = evidence([episode([vain, mix("1")], index=index, won=True) for index in range(3)])
    [transient] = choose_templates(["transient_failure"])
    candidate = transient.build(about, 0.5)
    assert candidate is not None
    assert "FAILURE = 'Nothing happens.'" in candidate.contract_source


def test_a_block_spares_a_known_win_and_a_detour_avoids_the_shortest() -> None:
    about = evidence(wins())
    [block, detour] = choose_templates(["block_calls", "detour"])
    blocked = block.build(about, 1.0)
    assert blocked is not None
    free = [one for one in about.baseline if dry_run(blocked, one).blocked == 0]
    assert free
    assert len(free) < len(about.baseline)
    away = detour.build(about, 0.0)
    assert away is not None
    assert away.in_env_actions == [mix("4")]


def test_the_page_describes_every_template_and_every_flaw() -> None:
    page = (Path(__file__).parents[2] / "docs" / "templates.md").read_text()
    for template in LIBRARY:
        [row] = [line for line in page.splitlines() if line.startswith(f"| `{template.id}` |")]
        assert {flaw for flaw in template.flaws if flaw != "none"} == {
            flaw.name for flaw in FLAWS if f"`{flaw.name}`" in row
        }
    for flaw in FLAWS:
        assert f"| `{flaw.name}` | {flaw.meaning} |" in page


def test_a_cut_list_says_how_much_is_missing_and_keeps_its_place_in_the_sentence() -> None:
    [cap] = choose_templates(["cap_lists"])
    candidate = cap.build(seen(cap), 1.0)
    assert candidate is not None
    with open_session(candidate.contract_source, seed=0) as session:
        shown = session.filter_observation(Observation(text="Left (3): 4, 5, 6\nOne, two. Done."), {})
    assert shown.text == "Left (3): and 3 more\nOne, two. Done."
