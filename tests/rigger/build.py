"""Episodes, measurements and evidence for tests, as short as the test allows."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from envharness.core.policy import PolicySpec
from envharness.core.trace import Episode, Outcome, StartRecord, TraceStep
from envharness.core.types import Action, JsonDict, Observation, ToolSchema
from envharness.rigger.config import AcceptanceConfig, EnvironmentConfig, RigConfig
from envharness.rigger.designers.base import Evidence
from envharness.rigger.diagnose import diagnose
from envharness.rigger.measurement import measure
from envharness.rigger.observe import policy_wins
from envharness.rigger.records import Direction, Measurement

TOOLS = (
    ToolSchema(
        name="mix",
        description="Mix two things.",
        parameters={
            "type": "object",
            "properties": {
                "left": {"type": "string"},
                "how": {"type": "string", "enum": ["stir", "shake"]},
                "right": {"type": "string"},
            },
            "required": ["left", "how", "right"],
        },
    ),
    ToolSchema(name="clear", description="Start again.", parameters={"type": "object", "properties": {}}),
    ToolSchema(name="finish", description="End it.", parameters={"type": "object", "properties": {}}),
)


def mix(left: str, how: str = "stir", right: str = "2") -> Action:
    return Action(name="mix", kwargs={"left": left, "how": how, "right": right})


CLEAR = Action(name="clear")
FINISH = Action(name="finish")


def step(number: int, action: Action | None, **fields: Any) -> TraceStep:
    fields.setdefault("shown", Observation(text=f"screen {number + 1}"))
    fields.setdefault("state", {"number": number, "items": [f"thing {number}"]})
    return TraceStep(step=number, action=action, **fields)


def episode(
    actions: Sequence[Action | TraceStep] = (),
    *,
    index: int = 0,
    won: bool = False,
    invalid: str = "",
    reason: str = "",
    detail: str = "",
) -> Episode:
    steps = [
        item.model_copy(update={"step": number}) if isinstance(item, TraceStep) else step(number, item)
        for number, item in enumerate(actions)
    ]
    outcome = Outcome(kind="success")
    if invalid:
        outcome = Outcome(kind="invalid", reason=invalid, detail=detail)
    elif not won:
        outcome = Outcome(kind="failure", reason=reason or "stopped")
    first = Observation(text="screen 0: alpha, beta, gamma, delta")
    start = StartRecord(shown=first, raw=first, state={"number": -1, "items": []})
    return Episode(task="t", index=index, seed=index, outcome=outcome, start=start, steps=steps)


def batch(successes: int, of: int, *, out_of_steps: bool = False) -> list[Episode]:
    reason = "out_of_steps" if out_of_steps else "stopped"
    return [episode([mix("1")], index=index, won=index < successes, reason=reason) for index in range(of)]


def measured(successes: int, of: int = 5, *, asked: int | None = None, **fields: Any) -> Measurement:
    return Measurement(asked=asked or of, valid=of, successes=successes, turns=3 * of, **fields)


def evidence(baseline: Sequence[Episode], *, direction: Direction = "harden", **fields: Any) -> Evidence:
    figures = measure(baseline, [f"key-{index}" for index in range(len(baseline))])
    made = Evidence(
        acceptance=AcceptanceConfig(),
        task="t",
        seed=7,
        direction=direction,
        band=(0.4, 0.6),
        max_steps=20,
        tools=TOOLS,
        state_schema="items: list[str] - what is there",
        baseline=tuple(baseline),
        measured=figures,
        diagnosis=diagnose(baseline, TOOLS, figures, direction),
        wins=policy_wins(baseline),
    )
    return replace(made, **fields)


def config(**fields: Any) -> RigConfig:
    options: JsonDict = fields.pop("environment_options", {})
    fields.setdefault("environment", EnvironmentConfig(id="rigger.halls:Halls", options=options))
    fields.setdefault("tasks", ["hall-0"])
    fields.setdefault("policy", PolicySpec(id="rigger.halls:Walker"))
    return RigConfig(**fields)
