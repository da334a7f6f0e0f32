"""Attacks on the channel between the hook process and its session, and on what comes back through it."""

from __future__ import annotations

from envharness.testing.attacks.attack import PRELUDE, Attack, Control, Layer, as_contract, in_filter_action

_EITHER = (Layer.REPLIES, Layer.FRAMES)
"""The hook's honest reply follows the forged one: whichever is seen first, depending on how the bytes arrive."""


def _frame(name: str, body: str, *, seconds: float = 10.0, stopped_by: tuple[Layer, ...] = (Layer.FRAMES,)) -> Attack:
    source = in_filter_action(body + "\nreturn action")
    return Attack(name, "frames", source, stopped_by, Control.TRUSTING, call_seconds=seconds)


def _value(name: str, body: str) -> Attack:
    source = as_contract(
        "def filter_action(self, action, env_state):\n" + "".join(f"    {x}\n" for x in body.split("\n"))
    )
    return Attack(name, "values", source, (Layer.REPLIES,), Control.NAIVE)


FRAMES = (
    _frame("forged-next-reply", "now = found('request_id')\nsend(frame(now, HONEST) + frame(now + 1, FORGED))"),
    _frame("forged-reply-then-loop", "send(frame(found('request_id') + 1, FORGED))\nwhile True: pass"),
    _frame("wrong-request-id", "send(frame(found('request_id') + 7, FORGED))"),
    _frame("replayed-ready-frame", 'send(frame(0, b\'{"ready":{"applied":{},"missing":{}}}\'))'),
    _frame("oversized-header", "send(frame(found('request_id'), b'x', length=2 ** 31))"),
    _frame("oversized-frame", "send(frame(found('request_id'), b'x' * 2 ** 23))"),
    _frame("half-header-then-loop", "send(b'\\x00\\x01')\nwhile True: pass", seconds=0.5, stopped_by=(Layer.DEADLINE,)),
    _frame(
        "half-frame-then-loop",
        "send(frame(found('request_id'), HONEST)[:-5])\nwhile True: pass",
        seconds=0.5,
        stopped_by=(Layer.DEADLINE,),
    ),
    _frame(
        "half-frame-then-reply",
        "send(frame(found('request_id'), HONEST)[:-5])",
        stopped_by=_EITHER,
    ),
    _frame("garbage-after-reply", "send(frame(found('request_id'), HONEST) + b'garbage')"),
    _frame("body-longer-than-frame", "send(frame(found('request_id'), HONEST, body_length=9999))"),
    _frame("reply-with-state", "send(frame(found('request_id'), HONEST, body_length=3))"),
    _frame("flood", "while True: send(b'\\xff' * 65536)"),
    _frame("reply-that-is-not-json", "send(frame(found('request_id'), b'{\"action\":'))", stopped_by=_EITHER),
    _frame("reply-of-no-form", "send(frame(found('request_id'), b'[1, 2]'))", stopped_by=_EITHER),
    _frame("reply-to-another-question", "send(frame(found('request_id'), b'{\"loaded\":{}}'))", stopped_by=_EITHER),
    Attack(
        "forged-while-loading",
        "frames",
        PRELUDE
        + '\nsend(frame(found(\'request_id\'), b\'{"loaded":{"class_name":"_Contract","overridden":["evaluate"]}}\'))',
        _EITHER,
        Control.TRUSTING,
    ),
)

VALUES = (
    _value("returns-none", "return None"),
    _value("returns-text", "return 'BREACH'"),
    _value("returns-dict", "return {'name': 'work', 'kwargs': {}}"),
    _value("self-referential", "action.kwargs['self'] = action.kwargs\nreturn action"),
    _value("not-json", "action.kwargs['handle'] = object()\nreturn action"),
    _value("set-in-arguments", "action.kwargs['set'] = {1, 2}\nreturn action"),
    _value("wrong-field-type", "return Action.model_construct(name=5, kwargs={})"),
    _value("arguments-not-a-dict", "return Action.model_construct(name='work', kwargs=[1])"),
    _value("number-as-key", "return Action.model_construct(name='work', kwargs={1: 2})"),
    _value("huge-reply", "return Action(name='work', kwargs={'text': 'x' * 2 ** 23})"),
    _value(
        "nested-too-deep",
        "nest = []\nfor _ in range(600): nest = [nest]\nreturn Action.model_construct(name='work', kwargs={'n': nest})",
    ),
    _value(
        "lying-subclass",
        "class Lie(Blocked):\n    reason: object = 7\nreturn Lie.model_construct(reason=7)",
    ),
    Attack(
        "returns-generator",
        "values",
        as_contract("def filter_action(self, action, env_state):\n    yield action"),
        (Layer.REPLIES,),
        Control.NAIVE,
    ),
    Attack(
        "response-is-none",
        "values",
        as_contract("def modify_transition(self, action, response, env_state): pass"),
        (Layer.REPLIES,),
        Control.NAIVE,
    ),
    Attack(
        "observation-is-text",
        "values",
        as_contract("def filter_observation(self, observation, env_state): return 'BREACH'"),
        (Layer.REPLIES,),
        Control.NAIVE,
    ),
    Attack(
        "text-is-a-number",
        "values",
        as_contract(
            "def filter_observation(self, observation, env_state): return Observation.model_construct(text=7, data={})"
        ),
        (Layer.REPLIES,),
        Control.NAIVE,
    ),
)
