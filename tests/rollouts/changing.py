"""A kitchen whose author changes it between a run and its rescoring, addressed as `rollouts.changing:Renovated`."""

from __future__ import annotations

import os

from envharness.core.errors import MissingDataError
from envharness.core.spec import StackSpec
from envharness.core.types import (
    Action,
    Capabilities,
    EnvResponse,
    EvaluationResult,
    JsonDict,
    Observation,
    ResetResponse,
)
from kitchen import Kitchen

CHANGES = "KITCHEN_CHANGES"
"""The variable that holds the names of what was changed, with spaces between."""


class Renovated(Kitchen):
    """Its changes: `strict` and `lenient` verifiers, other `words`, a `jammed` drawer, an `unending` game.

    Further: data that is `gone`, a verifier that `breaks`.
    """

    @property
    def capabilities(self) -> Capabilities:
        return Capabilities(thread_safe=True, volatile_state_keys=("clock",))

    def _start(self, seed: int | None, options: JsonDict) -> ResetResponse:
        if changed("gone"):
            raise MissingDataError("the kitchen was sold; buy another")
        return super()._start(seed, options)

    def _look(self) -> Observation:
        seen = super()._look()
        if changed("words"):
            return Observation(text=seen.text.upper(), data={**seen.data, "style": "loud"})
        return seen

    def step(self, action: Action) -> EnvResponse:
        if changed("jammed") and action.name == "drawer":
            return EnvResponse(observation=self.observe(), info={"refused": "the drawer is jammed"})
        response = super().step(action)
        if changed("unending") and response.terminated:
            self._phase = "running"
            return response.model_copy(update={"terminated": False})
        return response

    def evaluate(self) -> EvaluationResult:
        if changed("breaks"):
            raise ZeroDivisionError
        success = super().evaluate().success
        if changed("strict"):
            success = success and not self.drawer_open
        if changed("lenient"):
            success = success or self.drawer_open
        return EvaluationResult(success=success, score=float(success))


def changed(what: str) -> bool:
    return what in os.environ.get(CHANGES, "").split()


KITCHEN = StackSpec.environment("rollouts.changing:Renovated", max_steps=4)


def chain(*segments: StackSpec, router: str = "serial") -> StackSpec:
    """Join stacks; two such kitchens where none are given."""
    nodes = [segment.stack.model_dump(mode="json") for segment in segments or (KITCHEN, KITCHEN)]
    node = {"kind": "chained", "state": {"router": {"name": router}}, "segments": nodes}
    return StackSpec.from_data({"schema_version": 2, "stack": node})
