from __future__ import annotations

from envharness.components.stage import Stage
from envharness.components.tap import Tap, tapped
from envharness.core.spec import make
from kitchen import Kitchen, drawer, put, take


def test_it_records_the_bottom_and_is_gone_afterwards() -> None:
    stage = Stage(Kitchen(), [take()])
    with tapped(stage) as (top, recorder):
        assert top is stage
        top.reset(seed=1)
        replay = recorder.take()
        assert [exchange.action.replayed for exchange in replay.exchanges] == [True]
        assert replay.starts[0].observation.text.startswith("Put the mug")
        top.step(put("counter"))
        assert [exchange.action for exchange in recorder.take().exchanges] == [put("counter")]
        assert recorder.take().exchanges == []
    assert not any(isinstance(layer, Tap) for layer in stage.layers())


def test_a_bare_environment_is_tapped_too_and_its_description_unchanged() -> None:
    env = make("kitchen:Kitchen")
    with tapped(env) as (top, recorder):
        assert isinstance(top, Tap)
        assert top.spec == env.spec
        top.reset()
        response = top.step(drawer("open"))
        response.observation.text = "edited"
        assert recorder.exchanges[0].response.observation.text != "edited", "history is a copy"
