from __future__ import annotations

from typing import Any

import pytest

from envharness.core.errors import ConfigError, UnknownIdError
from envharness.core.trace import Episode
from envharness.core.types import Action
from envharness.rigger.config import DesignerConfig
from envharness.rigger.designers.base import Evidence, build_designer
from envharness.rigger.designers.random import RandomDesigner
from envharness.rigger.designers.template import TemplateDesigner, rank
from envharness.rigger.records import Candidate, CandidateCheck, Measurement, Round
from envharness.rigger.templates import LIBRARY
from rigger.build import CLEAR, FINISH, episode, evidence, measured, mix


def wins() -> list[Episode]:
    return [episode([mix("1"), mix(str(index % 2)), mix("3", "shake")], index=index, won=True) for index in range(5)]


def asked(*rounds: Round, **fields: Any) -> Evidence:
    return evidence(wins(), rounds=tuple(rounds), **fields)


def entry(
    candidate: Candidate | None, verdict: str, successes: int | None, *, failed: str = "", number: int = 1
) -> Round:
    assert candidate is not None
    figures = None if successes is None else measured(successes)
    checks = [CandidateCheck(id=failed, passed=False)] if failed else []
    return Round(
        number=number, candidate=candidate, verdict=verdict, measured=figures, decision="refine", checks=checks
    )


def only(*names: str) -> TemplateDesigner:
    return TemplateDesigner(only=names)


def test_movement_keeps_the_type_and_turns_the_magnitude() -> None:
    designer = TemplateDesigner()
    first = designer.propose(asked())
    assert first is not None
    harder = designer.propose(asked(entry(first, "too_easy", 4)))
    assert harder is not None
    assert harder.template == first.template
    assert (harder.magnitude or 0) > (first.magnitude or 0)
    milder = designer.propose(asked(entry(first, "too_hard", 1)))
    assert milder is not None
    assert milder.template == first.template
    assert (milder.magnitude or 1) < (first.magnitude or 0)


def test_no_movement_changes_the_type() -> None:
    designer = TemplateDesigner()
    first = designer.propose(asked())
    other = designer.propose(asked(entry(first, "no_movement", 5)))
    assert first is not None
    assert other is not None
    assert other.template != first.template


def test_no_movement_of_a_type_that_moved_before_is_a_magnitude_too_small() -> None:
    designer = only("transient_failure", "ration_calls")
    strong = designer.propose(asked())
    weak = designer.propose(asked(entry(strong, "too_hard", 0)))
    between = designer.propose(asked(entry(strong, "too_hard", 0), entry(weak, "no_movement", 5)))
    assert strong is not None
    assert weak is not None
    assert between is not None
    assert between.template == strong.template
    assert (weak.magnitude or 0) < (between.magnitude or 0) < (strong.magnitude or 0)


def test_unsolvable_loosens_also_where_a_free_check_said_so() -> None:
    designer = only("block_calls")
    first = designer.propose(asked())
    for told in (
        entry(first, "unsolvable", 0),
        entry(first, "unsolvable", None, failed="reference_solves"),
    ):
        milder = designer.propose(asked(told))
        assert milder is not None
        assert first is not None
        assert (milder.magnitude or 1) < (first.magnitude or 0)


def test_a_faulty_component_is_not_proposed_again() -> None:
    designer = TemplateDesigner()
    first = designer.propose(asked())
    for verdict, failed in (("component_fault", ""), ("verifier_drift", "no_op_fails"), ("check_failed", "dry_run")):
        other = designer.propose(asked(entry(first, verdict, None, failed=failed)))
        assert first is not None
        assert other is not None
        assert other.template != first.template


def test_an_incomplete_round_is_asked_again() -> None:
    designer = TemplateDesigner()
    first = designer.propose(asked())
    assert first is not None
    lost = entry(first, "incomplete", None).model_copy(update={"measured": Measurement(asked=5, valid=3, successes=2)})
    assert designer.propose(asked(lost)) == first


def test_flaws_choose_the_type() -> None:
    vain = [episode([mix("1"), mix("1")], index=index, reason="out_of_steps") for index in range(5)]
    lost = evidence(vain, direction="scaffold", wins=((mix("1"), mix("2")),))
    assert {template.direction for template in rank(LIBRARY, lost)} == {"scaffold"}
    assert {template.direction for template in rank(LIBRARY, asked())} == {"harden"}
    scores = dict.fromkeys(lost.diagnosis.scores, 0.0) | {"reads_only_the_start": 1.0}
    blind = asked(diagnosis=lost.diagnosis.model_copy(update={"scores": scores, "flaw": "reads_only_the_start"}))
    assert rank(LIBRARY, blind)[0].id in {"bury_observation", "truncate_observation"}


def test_it_gives_up_where_nothing_applies() -> None:
    empty = [episode([], index=index) for index in range(5)]
    assert only("hint").propose(evidence(empty, direction="scaffold")) is None
    assert RandomDesigner(only=["hint"]).propose(evidence(empty, direction="scaffold")) is None


def test_the_random_designer_draws_anew_each_time_and_the_same_again() -> None:
    designer = RandomDesigner()
    first = designer.propose(asked())
    assert designer.propose(asked()) == first
    later = {str(designer.propose(asked(*[entry(first, "too_easy", 4)] * count))) for count in range(1, 6)}
    assert len(later) > 2


def test_designers_are_built_by_name() -> None:
    assert isinstance(build_designer(DesignerConfig()), TemplateDesigner)
    with pytest.raises(ConfigError, match="no template 'mirror'"):
        build_designer(DesignerConfig(options={"only": ["mirror"]}))
    with pytest.raises(UnknownIdError):
        build_designer(DesignerConfig(id="tempalte"))
    with pytest.raises(ConfigError, match=r"designer\.options: 'random' has no option 'size' \(options: only\)"):
        build_designer(DesignerConfig(id="random", options={"size": 3}))
    with pytest.raises(ConfigError, match=r"'identity' has no option 'size' \(it takes none\)"):
        build_designer(DesignerConfig(id="identity", options={"size": 3}))
    with pytest.raises(ConfigError, match=r"'exploring' has no option 'policy' \(options: .*model, moves, "):
        build_designer(DesignerConfig(id="exploring", options={"policy": 3}))
    with pytest.raises(ConfigError, match=r"'rigger.halls:Walker' does not take these values.*\(options: .*seed"):
        build_designer(DesignerConfig(id="rigger.halls:Walker", options={"lazy": 0.5}))
    with pytest.raises(ConfigError, match=r"has neither propose\(\) nor write\(\)"):
        build_designer(DesignerConfig(id="pathlib:Path"))


def test_a_component_says_which_flaw_it_answers() -> None:
    diverse = [episode([mix(str(index)), mix("2", "shake"), FINISH], index=index, won=True) for index in range(5)]
    for about, name, answers in (
        (evidence(wins()), "block_calls", "fixed_opening"),
        (evidence(wins()), "delay_observation", "none"),
        (evidence(diverse), "require_first", "neglects_tool"),
    ):
        candidate = only(name).propose(about)
        assert candidate is not None
        assert (name, candidate.answers) == (name, answers)
    drawn = RandomDesigner(only=["block_calls"]).propose(evidence(wins()))
    assert drawn is not None
    assert drawn.answers == "fixed_opening"


def test_reasons_state_what_was_counted() -> None:
    def reason(name: str, *actions: Action) -> str:
        about = evidence([episode(actions, index=index, won=True) for index in range(5)])
        candidate = only(name).propose(about)
        assert candidate is not None
        return candidate.rationale

    plan = (mix("1"), mix("2"), mix("3", "shake"))
    assert reason("require_first", *plan, CLEAR).startswith("The policy calls clear in 5 of 20 turns. ")
    assert reason("require_first", *plan).startswith("The policy never calls clear. ")
    assert reason("ration_calls", *plan).startswith("The policy makes 10 of 15 calls as mix(how=stir...). ")
    assert "stays open" not in reason("block_calls", *plan)
