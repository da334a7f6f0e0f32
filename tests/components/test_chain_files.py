"""A Chain as data: it saves, loads and nests like any other component."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from envharness.components.chain import Chain
from envharness.components.stack_file import load_stack, save_stack
from envharness.components.stage import Stage
from envharness.core.errors import SpecError
from envharness.core.spec import ChainedNode, StackSpec, make
from environments import FORWARD, STOP

CORRIDOR = "environments:Corridor"


def corridor(length: int, **options: Any) -> Any:
    return make(CORRIDOR, length=length, **options)


ROUTERS: list[Any] = [
    "serial",
    {"name": "alternate", "every": 3},
    {"name": "branch_on_outcome", "on_success": 1, "on_failure": None},
    {"name": "switch_on_action", "rules": [{"tool": "back", "arguments": {"a": "b.*"}, "to": 1, "acts_in": "current"}]},
]


@pytest.mark.parametrize("router", ROUTERS)
def test_a_chain_survives_its_file(router: Any, tmp_path: Path) -> None:
    chain = Chain(
        [corridor(2), Stage(corridor(3), [FORWARD])],
        router,
        max_steps=9,
        strict=True,
        handoff={"on_start": "Now {next}.", "tail_steps": 3},
        tool_clashes="shared",
    )
    path = tmp_path / "stack.json"
    save_stack(chain, path)
    loaded = load_stack(path)
    assert isinstance(loaded, Chain)
    assert loaded.spec == chain.spec
    assert loaded.save_state() == chain.save_state()
    assert loaded.reset(seed=4) == chain.reset(seed=4)
    for action in (FORWARD, FORWARD):
        assert loaded.step(action) == chain.step(action)
    assert loaded.evaluate() == chain.evaluate()


def test_a_saved_chain_starts_at_its_start_whatever_was_played() -> None:
    chain = Chain([corridor(1), corridor(2)])
    fresh = chain.spec
    chain.reset()
    chain.step(FORWARD)
    assert chain.spec == fresh


def test_a_chain_of_chains_under_a_stage_survives_its_file() -> None:
    stack = Stage(Chain([Chain([corridor(1), corridor(1)]), corridor(2)], max_steps=8), [FORWARD])
    text = stack.spec.to_json()
    loaded = StackSpec.from_json(text).build()
    assert loaded.spec.to_json() == text
    loaded.reset()
    assert [loaded.step(FORWARD).terminated for _ in range(3)] == [False, False, True]
    assert loaded.evaluate().success


def test_keys_left_out_have_their_defaults() -> None:
    nodes = (corridor(1).node, corridor(1).node)
    chain = StackSpec(stack=ChainedNode(segments=nodes)).build()
    assert isinstance(chain, Chain)
    assert chain.save_state() == Chain([corridor(1), corridor(1)]).save_state()


@pytest.mark.parametrize(
    ("state", "message"),
    [
        ({"router": {"name": "alternate", "every": -1}}, r"stack\.state: router\.alternate\.every"),
        ({"colour": "red"}, r"stack\.state: colour"),
        ({"router": "branch_on_outcome"}, r"stack\.state: router: there is no segment 2"),
    ],
)
def test_a_malformed_state_is_an_error_that_names_the_place(state: Any, message: str) -> None:
    nodes = (corridor(1).node, corridor(1).node)
    with pytest.raises(SpecError, match=message):
        StackSpec(stack=ChainedNode(state=state, segments=nodes)).build()


def test_a_chain_of_hand_made_environments_has_no_description() -> None:
    from environments import Corridor

    with pytest.raises(SpecError, match="constructed directly"):
        _ = Chain([Corridor(1), Corridor(1)]).spec


def test_from_state_wants_segments() -> None:
    with pytest.raises(SpecError, match="joins segments"):
        Chain.from_state({})


def test_children_can_be_replaced() -> None:
    first, second, third = corridor(1), corridor(2), corridor(3)
    chain = Chain([first, second])
    assert chain.children() == (first, second)
    chain.replace_child(1, third)
    assert chain.children() == (first, third)
    with pytest.raises(IndexError, match="0 to 1"):
        chain.replace_child(2, third)
    chain.reset()
    chain.step(FORWARD)
    assert chain.step(STOP).observation.data["length"] == 3
