from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from envharness.rigger.config import DesignerConfig
from envharness.rigger.designers.base import build_designer
from envharness.rigger.designers.blind import BlindDesigner, shuffled
from envharness.rigger.designers.template import TemplateDesigner
from envharness.rigger.records import Diagnosis
from rigger.build import episode, evidence, mix

scores = st.dictionaries(st.text("abcdef", min_size=1, max_size=3), st.floats(0, 1), min_size=1)


@given(scores, st.integers(0, 2**62), st.booleans())
def test_scores_stay_as_strong_and_are_dealt_once_a_task(found: dict[str, float], seed: int, named: bool) -> None:
    flaw = max(found, key=lambda name: found[name]) if named else "none"
    diagnosis = Diagnosis(flaw=flaw, text="", direction="harden", scores=found)
    dealt = shuffled(diagnosis, seed)
    assert sorted(dealt.scores.values()) == sorted(found.values())
    assert dealt.scores.keys() == found.keys()
    assert dealt == shuffled(diagnosis, seed)
    assert (dealt.flaw == "none") if not named else dealt.scores[dealt.flaw] == found[flaw]


def test_the_type_it_chooses_does_not_follow_the_diagnosis_and_varies_from_task_to_task() -> None:
    played = [episode([mix("1"), mix("2"), mix("3", "shake")], index=index, won=True) for index in range(5)]
    seen = [evidence(played, seed=seed) for seed in range(40)]
    blind = {candidate.template for one in seen if (candidate := BlindDesigner().propose(one))}
    sighted = {candidate.template for one in seen if (candidate := TemplateDesigner().propose(one))}
    assert len(sighted) == 1, "the same trajectories, the same choice"
    assert len(blind) > 1


def test_it_claims_no_insight_and_takes_the_options_of_the_template_designer() -> None:
    played = [episode([mix("1")], index=index, won=True) for index in range(5)]
    designer = build_designer(DesignerConfig(id="blind", options={"only": ["transient_failure"]}))
    assert isinstance(designer, BlindDesigner)
    candidate = designer.propose(evidence(played))
    assert candidate is not None
    assert (candidate.template, candidate.answers) == ("transient_failure", "none")
