from __future__ import annotations

import pytest

from envharness.components.contract import Contract
from envharness.components.stage import Stage
from envharness.core.errors import ReplayError, SpecError
from envharness.core.spec import StackSpec, make
from envharness.core.types import Action
from kitchen import Kitchen, drawer, put, take

HIDE = [take(), drawer("open"), put("drawer"), drawer("closed")]


def test_it_moves_the_start_and_shows_it() -> None:
    with Stage(Kitchen(), HIDE) as env:
        assert env.reset(seed=3).observation.text == "The drawer is closed. No mug to be seen."
        assert env.get_env_state()["mug"] == "drawer"
        assert env.step(take()).info == {"ineffective": True}
        env.step(drawer("open"))
        env.step(take())
        assert env.step(put("desk")).terminated
        assert env.evaluate().success


@pytest.mark.parametrize(
    ("actions", "index", "words"),
    [
        ([take(), Action(name="fly")], 1, "was refused: there is no tool 'fly'"),
        ([put("shelf")], 0, "was refused"),
        ([put("desk")], 0, "had no effect"),
        ([take(), put("desk")], 1, "ended the episode"),
    ],
)
def test_a_replay_that_fails_is_an_error_with_the_index(actions: list[Action], index: int, words: str) -> None:
    with Stage(Kitchen(), actions) as env, pytest.raises(ReplayError, match=words) as caught:
        env.reset()
    assert caught.value.index == index


def test_a_contract_below_can_block_the_replay_and_one_above_cannot() -> None:
    source = "class _Contract(Contract):\n    def filter_action(self, action, env_state):\n        return Blocked(reason='no')\n"
    with Stage(Contract(Kitchen(), source), HIDE) as env, pytest.raises(ReplayError, match="was blocked: no"):
        env.reset()
    with Contract(Stage(Kitchen(), HIDE), source) as env:
        env.reset()
        assert env.get_env_state()["mug"] == "drawer"


def test_the_hooks_below_are_told_what_is_replayed_and_start_afresh_after_it() -> None:
    source = """
class _Contract(Contract):
    def filter_action(self, action, env_state):
        env_state.extras["seen"] = env_state.extras.get("seen", 0) + 1
        if not action.replayed:
            return Blocked(reason=f"seen {env_state.extras['seen']}")
        return action
"""
    with Stage(Contract(Kitchen(), source), HIDE) as env:
        env.reset()
        assert env.get_env_state()["mug"] == "drawer"
        assert env.step(take()).info["blocked"] == "seen 1"


def test_another_state_than_when_it_was_made_is_an_error() -> None:
    with Stage(make("kitchen:Kitchen"), HIDE) as first:
        first.reset(seed=1)
        saved = first.spec
    again = saved.build()
    assert isinstance(again, Stage)
    again.reset(seed=1)
    state = again.save_state()["fingerprints"]
    assert isinstance(state, dict)
    assert list(state) == ["1"]
    digests = state["1"]
    assert isinstance(digests, list)
    changed = {"1": [*[str(digest) for digest in digests[:2]], "0" * 16, str(digests[3])]}
    drifted = Stage(Kitchen(), HIDE, fingerprints=changed)
    drifted.reset(seed=2)  # another seed is another world: recorded, not compared
    with pytest.raises(ReplayError, match="led to another state") as caught:
        drifted.reset(seed=1)
    assert caught.value.index == 2


def test_it_is_data() -> None:
    env = Stage(make("kitchen:Kitchen", max_steps=9), HIDE)
    spec = StackSpec.from_json(env.spec.to_json())
    assert spec == StackSpec.environment("kitchen:Kitchen", max_steps=9).wrap(
        "stage", actions=[action.model_dump(mode="json") for action in HIDE]
    )
    with spec.build() as rebuilt:
        rebuilt.reset()
        assert rebuilt.get_env_state()["mug"] == "drawer"


@pytest.mark.parametrize("state", [{}, {"actions": 3}, {"actions": [{"tool": "x"}]}, {"actions": [], "more": 1}])
def test_a_malformed_state_is_named(state: dict[str, object]) -> None:
    with pytest.raises(SpecError, match=r"stack\.state"):
        StackSpec.environment("kitchen:Kitchen").wrap("stage", **state).build()


def test_a_directly_constructed_environment_says_that_it_cannot_be_saved() -> None:
    with pytest.raises(SpecError, match="constructed directly"):
        _ = Stage(Kitchen(), HIDE).spec
