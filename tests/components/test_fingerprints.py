"""What episodes record of where Stages lead, and the stacks that hold later resets to it."""

from __future__ import annotations

from typing import Any

import pytest

from envharness.components.fingerprints import recorded_fingerprints, with_fingerprints
from envharness.core.errors import ReplayError
from envharness.core.policy import PolicySpec
from envharness.core.spec import StackSpec
from envharness.core.trace import ComponentEvent, Episode
from envharness.rollouts.episode import run_episode
from environments import Corridor
from rollouts.hostile import script

FORWARD = {"name": "forward"}
CORRIDOR = StackSpec.environment("environments:Corridor", length=5)
STAGED = CORRIDOR.wrap("stage", actions=[FORWARD, FORWARD])
QUIET = "class _Contract(Contract):\n    def filter_action(self, action, env_state):\n        return action\n"


def played(stack: StackSpec, *actions: dict[str, Any], seed: int = 3) -> Episode:
    plan = script(list(actions))
    return run_episode(stack, PolicySpec(id=plan.id, options=plan.options), seed=seed)


def chain(*segments: StackSpec) -> StackSpec:
    nodes = [segment.stack.model_dump(mode="json") for segment in segments]
    stack = {"kind": "chained", "component": "chain", "state": {"router": "serial"}, "segments": nodes}
    return StackSpec.from_data({"schema_version": 2, "stack": stack})


def as_the_stack_itself_records(stack: StackSpec, seed: int = 3) -> StackSpec:
    with stack.build() as env:
        env.reset(seed)
        return env.spec


@pytest.mark.parametrize(
    "stack",
    [
        STAGED,
        STAGED.wrap("stage", actions=[FORWARD]),
        CORRIDOR.wrap("contract", source=QUIET).wrap("stage", actions=[FORWARD]).wrap("contract", source=QUIET),
        chain(CORRIDOR, STAGED).wrap("stage", actions=[FORWARD] * 5),
    ],
)
def test_what_an_episode_records_is_what_the_stages_would_have_saved(stack: StackSpec) -> None:
    with stack.build() as env:
        stack = env.spec  # as it is saved, with every default
    held = with_fingerprints(stack, [played(stack)])
    assert held == as_the_stack_itself_records(stack)
    assert held != stack


def test_a_segment_that_is_reached_late_is_recorded_too() -> None:
    stack = chain(CORRIDOR, STAGED)
    assert with_fingerprints(stack, [played(stack)]) == stack
    held = with_fingerprints(stack, [played(stack, *[FORWARD] * 5)])
    assert "fingerprints" in held.to_json().decode()


def test_a_stack_that_is_held_to_its_start_fails_at_reset_where_the_world_has_changed(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    held = with_fingerprints(STAGED, [played(STAGED)])
    assert played(held).valid
    start = Corridor._start

    def repainted(self: Corridor, seed: int | None, options: Any) -> Any:
        response = start(self, seed, options)
        self.colour = "repainted"
        return response

    monkeypatch.setattr(Corridor, "_start", repainted)
    with held.build() as env, pytest.raises(ReplayError, match="another state than when this Stage was made"):
        env.reset(3)
    assert played(held).outcome.reason == "component_fault"
    assert played(held, seed=4).valid  # another seed is another start, and is recorded when it is first seen


def test_fingerprints_that_are_there_stay_and_what_episodes_disagree_on_is_left_out() -> None:
    one, other = played(STAGED), played(STAGED)
    former = with_fingerprints(STAGED, [one])
    assert with_fingerprints(former, [one, other]) == former
    assert recorded_fingerprints([played(former)])[0][1] == {}
    assert other.start is not None
    [event] = other.start.events
    other.start.events = [event.model_copy(update={"detail": event.detail.replace("a", "b").replace("1", "2")})]
    assert with_fingerprints(STAGED, [one, other]) == STAGED


def test_what_another_component_reports_in_its_own_form_is_no_fingerprint() -> None:
    episode = played(STAGED)
    assert episode.start is not None
    episode.start.events = [ComponentEvent(component="mine#0", kind="recorded_start", detail="somewhere")]
    assert recorded_fingerprints([episode])[0][1] == {}
