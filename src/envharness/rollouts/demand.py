"""What a job asks of the machine: whether its policy mostly waits or computes, and which environments it needs."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, cast

import orjson
from pydantic import JsonValue

from envharness.core.env import ActionableEnv
from envharness.core.errors import EnvHarnessError
from envharness.core.policy import PolicySpec
from envharness.core.registry import load
from envharness.core.spec import ChainedNode, EnvironmentNode, StackNode
from envharness.llm.config import Endpoint
from envharness.rollouts.job import RolloutJob

Declaration = Callable[[Mapping[str, JsonValue]], Sequence[Endpoint]]
"""How a policy says which endpoints it waits for, given its options: a class method `waits_for`."""


@dataclass(frozen=True)
class Demand:
    """What an episode asks for."""

    endpoints: tuple[str, ...] = ()
    """Addresses that its policy waits for: episodes that wait for the same ones share their places. Empty where the
    policy computes."""
    places: tuple[int, ...] = ()
    """How many calls each of them takes at once."""
    turns_a_minute: float | None = None
    """What all of them together allow; None is no limit."""
    turn_seconds: float = 12.0
    """How long a turn may take on average if an episode of all its steps is to keep its own time limit."""

    @property
    def waits(self) -> bool:
        """Whether an episode mostly waits for somebody else's answer, so that many fit in one process."""
        return bool(self.places)


COMPUTES = Demand()


@dataclass(frozen=True)
class EnvironmentKind:
    """Environments that declare the same about themselves, whatever their tasks are."""

    id: str
    options: str
    """The options that may choose another backend."""


class Demands:
    """Finds the demand of a job, and remembers it: the jobs of a run have few policies."""

    def __init__(self) -> None:
        self._known: dict[tuple[str, bytes, float], Demand] = {}

    def of(self, job: RolloutJob) -> Demand:
        """Return the job's demand. A policy that cannot be asked counts as one that computes: its episode says why."""
        try:
            waits_for = _declaration(job.policy)
            if waits_for is None:
                return COMPUTES
            turn_seconds = job.limits.episode_seconds / job.limits.max_steps
            key = (job.policy.id, orjson.dumps(job.policy.options), turn_seconds)
            if key not in self._known:
                self._known[key] = demand_for(waits_for(job.policy.options), turn_seconds)
            return self._known[key]
        except (EnvHarnessError, TypeError, ValueError):
            return COMPUTES


def demand_for(endpoints: Sequence[Endpoint], turn_seconds: float) -> Demand:
    """Return what a policy that waits for `endpoints` asks for; none at all means that it computes."""
    limits = [endpoint.requests_per_minute for endpoint in endpoints]
    bounded = [limit for limit in limits if limit is not None]
    return Demand(
        endpoints=tuple(endpoint.base_url for endpoint in endpoints),
        places=tuple(endpoint.concurrency for endpoint in endpoints),
        turns_a_minute=float(sum(bounded)) if limits and len(bounded) == len(limits) else None,
        turn_seconds=turn_seconds,
    )


def kinds_of(job: RolloutJob) -> frozenset[EnvironmentKind]:
    """Return the kinds of the environments at the bottom of the job's stack."""
    return frozenset(_kind(node) for node in _environments(job.stack.stack))


def shared_backends(env: ActionableEnv) -> list[str]:
    """Return the ids of the environments at the bottom of a live stack that share a backend with others.

    One that cannot say counts among them: then it is only slower.
    """
    return [_id_of(layer) for layer in env.layers() if not layer.children() and not _is_isolated(layer)]


def _is_isolated(env: ActionableEnv) -> bool:
    try:
        return env.capabilities.isolated is True
    except Exception:  # noqa: BLE001  a bridge's own code; whatever it does must not end the episode
        return False


def _id_of(env: ActionableEnv) -> str:
    return env.node.id if isinstance(env.node, EnvironmentNode) else ""


def _kind(node: EnvironmentNode) -> EnvironmentKind:
    """Return a node's kind. Numbers and lists among its options choose a world, as the task does, not a backend."""
    options = {key: value for key, value in node.options.items() if key != "task" and isinstance(value, str | bool)}
    return EnvironmentKind(node.id, repr(sorted(options.items())))


def _declaration(policy: PolicySpec) -> Declaration | None:
    """Return the class method `waits_for(options)` of a policy that waits, or None."""
    says: Any = getattr(load("policy", policy.id), "waits_for", None)
    return cast("Declaration", says) if callable(says) else None


def _environments(node: StackNode) -> Iterator[EnvironmentNode]:
    if isinstance(node, EnvironmentNode):
        yield node
    elif isinstance(node, ChainedNode):
        for segment in node.segments:
            yield from _environments(segment)
    else:
        yield from _environments(node.inner)
