"""Tap: records what crosses the bottom of a stack, so that a trace says what happened and not what was asked for."""

from __future__ import annotations

from collections.abc import Generator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import ClassVar

from envharness.core.env import ActionableEnv
from envharness.core.harness import EnvHarness
from envharness.core.spec import StackNode
from envharness.core.trace import ComponentEvent, Exchange, SegmentStart
from envharness.core.types import Action, EnvResponse, JsonDict, ResetResponse


@dataclass
class Recorder:
    """What taps and components have reported since the last `take`."""

    exchanges: list[Exchange] = field(default_factory=list[Exchange])
    events: list[ComponentEvent] = field(default_factory=list[ComponentEvent])
    starts: list[SegmentStart] = field(default_factory=list[SegmentStart])

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
        observation = response.observation.model_copy(deep=True)
        self._recorder.starts.append(SegmentStart(segment=self._segment, observation=observation))
        return response

    def step(self, action: Action) -> EnvResponse:
        """Step, and record the exchange as copies: nobody above can edit history."""
        response = self.inner.step(action)
        self._recorder.exchanges.append(
            Exchange(
                segment=self._segment, action=action.model_copy(deep=True), response=response.model_copy(deep=True)
            )
        )
        return response

    @property
    def node(self) -> StackNode:
        """A tap leaves no trace in the description of a stack."""
        return self.inner.node


@contextmanager
def tapped(env: ActionableEnv) -> Generator[tuple[ActionableEnv, Recorder]]:
    """Slip taps onto the bridges of a live stack while an episode lasts; yields the stack to use and the recorder."""
    recorder = Recorder()
    top = _place(env, recorder, "0", [0])
    try:
        yield top, recorder
    finally:
        _remove(top)


def _place(env: ActionableEnv, recorder: Recorder, segment: str, count: list[int]) -> ActionableEnv:
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
        else:
            _remove(child)
