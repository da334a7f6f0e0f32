from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from envharness.campaign.outcomes import component_of, count_distinct, most_rollouts, outcome_of
from envharness.core.trace import ComponentEvent
from envharness.core.types import Action, JsonDict
from envharness.rigger.config import RigConfig
from envharness.rigger.records import Candidate
from envharness.store.database import RunStore
from report.build_run import CONFIG, episode, measured, open_store, put_episodes, result, step
from rigger.halls import go

SOURCE = "KEY = 'a1'\nSHARE = 0.5\n\n\nclass _Contract(Contract):\n    pass\n"


def settings(**fields: object) -> RigConfig:
    config: JsonDict = {**CONFIG, "tasks": ["t"], "policy": {"id": "solver"}, "remeasure": 50}
    return RigConfig.model_validate({**config, **fields})


@pytest.fixture
def store(tmp_path: Path) -> Iterator[RunStore]:
    with open_store(tmp_path / "run") as opened:
        yield opened


def test_an_accepted_task_costs_its_baseline_and_its_rounds(store: RunStore) -> None:
    found = result("t", 5, 3, fresh=50)
    put_episodes(store, found)
    outcome = outcome_of(found, settings(), store)
    paid = [found.baseline, *(entry.measured for entry in found.rounds if entry.measured)]
    assert outcome.rollouts == count_distinct(paid)
    assert (outcome.accepted, outcome.counted, outcome.fresh, outcome.held) == (True, True, True, True)
    assert outcome.probability is not None
    assert 0.95 < outcome.probability < 0.97
    assert outcome.component is not None
    assert not outcome.within(outcome.rollouts - 1)
    assert outcome.within(outcome.rollouts)


def test_a_task_that_was_never_measured_afresh_is_in_no_band(store: RunStore) -> None:
    """An undecided task has no fresh rollouts where others have: leaving it out would flatter the share."""
    found = result("t", 5).model_copy(update={"status": "invalid"})
    outcome = outcome_of(found, settings(), store)
    assert (outcome.fresh, outcome.probability, outcome.counted) == (False, 0.0, False)
    unasked = outcome_of(found, settings(remeasure=0), store)
    assert (unasked.fresh, unasked.probability) == (None, None)


def test_rollouts_that_two_batches_rest_on_are_paid_for_once() -> None:
    first, both = measured(1, 2, episodes=("a", "b")), measured(2, 3, episodes=("a", "b", "c"))
    assert count_distinct([first, both]) == 3
    assert count_distinct([first, measured(1, 5)]) == 7


def test_the_budget_is_the_baseline_and_every_round() -> None:
    assert most_rollouts(settings(rollouts=5, rounds=5)) == 30


def test_components_of_one_form_differ_in_values_alone() -> None:
    made = Candidate(contract_source=SOURCE, template="block_calls", answers="leans_on_action")
    other = made.model_copy(update={"contract_source": SOURCE.replace("a1", "b2").replace("0.5", "0.25")})
    assert component_of(made, []) == component_of(other, [])
    longer = made.model_copy(update={"contract_source": SOURCE + "    LIMIT = 2\n"})
    assert component_of(made, []).form != component_of(longer, []).form
    staged = made.model_copy(update={"in_env_actions": [go("walk on")]})
    assert component_of(made, []).form != component_of(staged, []).form
    assert component_of(made, []).flaw == "leans_on_action"


def test_behaviour_is_what_hooks_did_to_which_kind_of_action_however_often() -> None:
    blocked = step(0, "x", blocked="stuck")
    once = component_of(Candidate(), [episode("t", won=True, steps=[blocked])])
    twice = component_of(Candidate(), [episode("t", won=True, steps=[blocked, blocked])] * 2)
    assert once.behaviour == twice.behaviour == "filter_action blocked combine"
    words = [
        blocked.model_copy(update={"action": Action(name="command", kwargs={"text": text})})
        for text in ("take mug 1", "take plate 2", "go to desk")
    ]
    spoken = component_of(Candidate(), [episode("t", won=True, steps=words)])
    assert spoken.behaviour.splitlines() == [
        "filter_action blocked command go",
        "filter_action blocked command take",
    ]
    nameless = blocked.model_copy(update={"events": [ComponentEvent(component="stage#0", kind="violation")]})
    assert "stage#0 violation" in component_of(Candidate(), [episode("t", won=True, steps=[nameless])]).behaviour
