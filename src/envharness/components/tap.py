"""Tap: records what crosses the bottom of a stack, so that a trace says what happened and not what was asked for."""

from __future__ import annotations

import math
from abc import abstractmethod
from collections.abc import Generator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import ClassVar, TypeVar, cast

from pydantic import BaseModel, ValidationError
from pydantic_core import PydanticSerializationError

from envharness.core.env import ActionableEnv
from envharness.core.harness import EnvHarness
from envharness.core.json_copy import json_copy, plain_copy
from envharness.core.known import known
from envharness.core.messages import one_line
from envharness.core.spec import StackNode
from envharness.core.trace import ComponentEvent, Exchange, SegmentStart
from envharness.core.types import Action, EnvResponse, JsonDict, Observation, ResetResponse

T = TypeVar("T")
Model = TypeVar("Model", bound=BaseModel)


@dataclass
class Recorder:
    """What taps and components have reported since the last `take`."""

    exchanges: list[Exchange] = field(default_factory=list[Exchange])
    events: list[ComponentEvent] = field(default_factory=list[ComponentEvent])
    starts: list[SegmentStart] = field(default_factory=list[SegmentStart])
    exact: EnvResponse | None = None
    """The last response that a bridge gave, if what was recorded of it is equal to it in every part."""

    def event(self, event: ComponentEvent) -> None:
        """Take one event of a component."""
        self.events.append(event)

    def take(self) -> Recorder:
        """Return what was recorded since the last call, and forget it."""
        taken = Recorder(self.exchanges, self.events, self.starts)
        self.exchanges, self.events, self.starts = [], [], []
        return taken


class Tap(EnvHarness):
    """Sits directly on a bridge and records each action that reaches it with its answer. Changes nothing."""

    tag: ClassVar[str] = "tap"

    def __init__(self, inner: ActionableEnv, recorder: Recorder, segment: str = "0") -> None:
        super().__init__(inner)
        self._recorder = recorder
        self._segment = segment

    def reset(self, seed: int | None = None, options: JsonDict | None = None) -> ResetResponse:
        """Reset, and record the environment's own first observation."""
        response = self.inner.reset(seed, options)
        observation = written_copy(ResetResponse, response, "reset").observation
        self._recorder.starts.append(SegmentStart(segment=self._segment, observation=observation))
        return response

    def step(self, action: Action) -> EnvResponse:
        """Step, and record the exchange as copies: nobody above can edit history."""
        response = self.inner.step(action)
        recorded = plain_copy(EnvResponse, response)
        self._recorder.exact = response if recorded else None
        recorded = recorded or written_copy(EnvResponse, response, "step")
        asked = plain_copy(Action, action) or action.model_copy(deep=True)
        self._recorder.exchanges.append(
            known(Exchange, {"segment": self._segment, "action": asked, "response": recorded})
        )
        return response

    def observe(self) -> Observation:
        """Forward, and see that it is an observation."""
        return expect(Observation, self.inner.observe(), "observe")

    def get_env_state(self) -> JsonDict:
        """Forward, and see that it is an object."""
        return cast("JsonDict", expect(dict, self.inner.get_env_state(), "get_env_state"))

    @property
    def node(self) -> StackNode:
        """A tap leaves no trace in the description of a stack."""
        return self.inner.node


class SelfRecording(ActionableEnv):
    """Stands for a bridge and the components directly on it, and records for them as taps would."""

    @abstractmethod
    def record(self, recorder: Recorder, segment: str, first: int) -> int:
        """Record to `recorder` from now on, as the environment `segment` whose innermost component is `first`.

        Returns how many components it stands for.
        """


def written_copy(kind: type[Model], value: object, call: str) -> Model:
    """Return a copy by way of JSON. Raises TypeError for what is not the model it should be.

    A bridge's mistake is found here, below all components, so that none of them is blamed for it.
    """
    model = expect(kind, value, call)
    if isinstance(model, EnvResponse) and isinstance(model.reward, float) and not math.isfinite(model.reward):
        raise ValueError(f"{call} returned the reward {model.reward}, which is not a finite number")
    try:
        return json_copy(kind, model)
    except ValidationError as error:
        raise TypeError(f"{call} returned a malformed {kind.__name__}: {one_line(error)}") from error
    except PydanticSerializationError as error:
        reason = " ".join(str(error).split())
        raise TypeError(f"{call} returned what is not JSON: {reason}") from error


def expect(kind: type[T], value: object, call: str) -> T:
    """Return what a bridge returned, if it is of `kind`: its author's type checker may not have looked."""
    if not isinstance(value, kind):
        raise TypeError(f"{call} returned {type(value).__name__}, not {kind.__name__}")
    return value


@contextmanager
def tapped(env: ActionableEnv) -> Generator[tuple[ActionableEnv, Recorder]]:
    """Slip taps onto the bridges of a live stack while an episode lasts; yields the stack to use and the recorder."""
    recorder = Recorder()
    top = _place(env, recorder, "0", [0])
    try:
        yield top, recorder
    finally:
        _remove(top)


def tap_part(env: ActionableEnv, recorder: Recorder, segment: str, first: int) -> ActionableEnv:
    """Slip taps for good onto a part of a larger stack, and return it.

    `segment` is the part's path in the whole, `first` the number of its innermost component.
    """
    return _place(env, recorder, segment, [first])


def _place(env: ActionableEnv, recorder: Recorder, segment: str, count: list[int]) -> ActionableEnv:
    if isinstance(env, SelfRecording):
        count[0] += env.record(recorder, segment, count[0])
        return env
    children = env.children()
    if not children:
        return Tap(env, recorder, segment)
    for index, child in enumerate(children):
        path = segment if len(children) == 1 else f"{segment}.{index}"
        env.replace_child(index, _place(child, recorder, path, count))
    # Numbered on the way up, so that #0 is the innermost.
    env.attach(recorder, count[0])
    count[0] += 1
    return env


def _remove(env: ActionableEnv) -> None:
    for index, child in enumerate(env.children()):
        if isinstance(child, Tap):
            env.replace_child(index, child.inner)
        elif not isinstance(child, SelfRecording):
            _remove(child)
