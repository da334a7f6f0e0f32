"""The environment under check: fresh copies of it, actions to play, and its state without what may differ."""

from __future__ import annotations

from collections.abc import Callable, Generator, Iterable, Sequence
from contextlib import contextmanager
from functools import cached_property
from typing import NoReturn

import orjson
from pydantic import ValidationError

from envharness.core.env import ActionableEnv
from envharness.core.errors import SpecError
from envharness.core.glimpse import Glimpse, difference
from envharness.core.messages import one_line
from envharness.core.seeding import stream
from envharness.core.spec import EnvironmentNode, StackNode, StackSpec
from envharness.core.types import Action, Capabilities, EnvResponse, JsonDict
from envharness.policies.random import random_action


class Violation(Exception):
    """The environment breaks a promise; the text says how."""


class NotApplicable(Exception):
    """The environment's declared capabilities do not make the promise; the text says which."""


class Subject:
    """Makes copies of one environment. Every copy is closed by the `with` block that asked for it."""

    def __init__(self, make: Callable[[], ActionableEnv], *, seed: int, max_steps: int) -> None:
        self._make = make
        self.seed = seed
        self.max_steps = max_steps

    @contextmanager
    def fresh(self) -> Generator[ActionableEnv]:
        """Yield a copy that nobody used before."""
        with self._make() as env:
            yield env

    @cached_property
    def capabilities(self) -> Capabilities:
        """What the environment declares."""
        with self.fresh() as env:
            return env.capabilities

    @cached_property
    def reference(self) -> list[Action] | None:
        """The reference solution for the seed; None where the benchmark has none."""
        with self.fresh() as env:
            env.reset(self.seed)
            return env.reference_solution()

    @cached_property
    def actions(self) -> list[Action]:
        """Actions that can be executed one after the other: the reference solution, else sampled from the schemas.

        At most `max_steps`; only the last may end the episode. Never empty.
        """
        played: list[Action] = []
        with self.fresh() as env:
            shown = env.reset(self.seed).observation
            rng = stream(self.seed, "conformance", "actions")
            solution = iter(self.reference or ())
            for _ in range(self.max_steps):
                action = next(solution, None) if self.reference else random_action(env.tool_schemas(), shown, rng)
                if action is None:
                    break
                response = env.step(action)
                shown = response.observation
                if not response.info.get("refused"):
                    played.append(action)
                if response.terminated or response.truncated:
                    break
        if not played:
            raise Violation(f"none of {self.max_steps} actions that fit the tools' schemas was accepted")
        return played

    @property
    def opening(self) -> list[Action]:
        """The first half of `actions`: it never ends the episode."""
        return self.actions[: len(self.actions) // 2]

    def state(self, env: ActionableEnv) -> JsonDict:
        """Return the state without volatile keys."""
        volatile = self.capabilities.volatile_state_keys
        return {key: value for key, value in env.get_env_state().items() if key not in volatile}

    def start(self, env: ActionableEnv, seed: int | None = None) -> Glimpse:
        """Reset with the subject's seed, or with `seed`."""
        response = env.reset(self.seed if seed is None else seed)
        return Glimpse.of(env.get_env_state(), response.observation, volatile=self.capabilities.volatile_state_keys)

    def play(self, env: ActionableEnv, actions: Iterable[Action]) -> list[Glimpse]:
        """Step through `actions`."""
        return [self.glimpse(env, env.step(action)) for action in actions]

    def opening_alone(self) -> list[Glimpse]:
        """Return what the opening gives in a fresh copy that nothing disturbs, and the state it leads to."""
        with self.fresh() as env:
            self.start(env)
            return [*self.play(env, self.opening), Glimpse(self.state(env), None)]

    def glimpse(self, env: ActionableEnv, response: EnvResponse) -> Glimpse:
        """Return what can be compared after a step."""
        outcome = (response.reward, response.terminated, response.truncated)
        volatile = self.capabilities.volatile_state_keys
        return Glimpse.of(env.get_env_state(), response.observation, outcome, volatile=volatile)

    def ended(self, env: ActionableEnv) -> None:
        """Bring a fresh copy to the end of an episode. Raises Violation where it cannot."""
        limits: list[JsonDict | None] = [None]
        if self.capabilities.step_limit_option:
            limits.append({"max_steps": len(self.actions)})
        for options in limits:
            env.reset(self.seed, options)
            for action in self.actions:
                response = env.step(action)
                if response.terminated or response.truncated:
                    return
        raise Violation(
            f"no end was reached in {len(self.actions)} steps; give the bridge a reference solution or the reset "
            "option max_steps (capability step_limit_option), or check with a larger max_steps"
        )


def saved(env: ActionableEnv) -> Callable[[], ActionableEnv]:
    """Save the whole stack as a file would hold it, each bridge with its snapshot; return what makes it again.

    An environment constructed by hand is made again by its class's `from_state` alone. Raises Violation where a state
    is not JSON.
    """
    try:
        _ = env.node
    except SpecError:
        state = _through_json(env.save_state())
        return lambda: type(env).from_state(state)
    try:
        text = StackSpec(stack=_saved_node(env)).to_json()
    except ValidationError as error:
        raise Violation(f"save_state() is not JSON: {one_line(error)}") from error
    return StackSpec.from_json(text).build


def _saved_node(env: ActionableEnv) -> StackNode:
    node, children = env.node, [_saved_node(child) for child in env.children()]
    if isinstance(node, EnvironmentNode):
        return EnvironmentNode(id=node.id, options=node.options, state=env.save_state())
    return node.model_copy(update={"inner": children[0]} if len(children) == 1 else {"segments": tuple(children)})


def _through_json(state: JsonDict) -> JsonDict:
    try:
        return orjson.loads(orjson.dumps(state))
    except TypeError as error:
        raise Violation(f"save_state() is not JSON: {error}") from error


def require_equal(expected: Sequence[Glimpse], found: Sequence[Glimpse], what: str) -> None:
    """Raise Violation naming the first moment at which two plays differ."""
    for index, (one, other) in enumerate(zip(expected, found, strict=True)):
        if how := difference(one, other):
            raise Violation(f"{what}, but at moment {index} {how}")


def fail(message: str) -> NoReturn:
    """Raise Violation."""
    raise Violation(message)
