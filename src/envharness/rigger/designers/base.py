"""The contract of a designer: it is shown evidence and answers with a candidate."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol, runtime_checkable

from envharness.core.errors import ConfigError
from envharness.core.registry import load
from envharness.core.trace import Episode
from envharness.core.types import Action, ToolSchema
from envharness.rigger.config import DesignerConfig
from envharness.rigger.records import Candidate, Diagnosis, Direction, Measurement, Round


@dataclass(frozen=True)
class Evidence:
    """All that a designer is told. The verifier's inside and, unless the run allows it, the reference are not in it."""

    task: str
    seed: int
    """The root of every random choice the designer makes for this task. Never the global RNG."""
    direction: Direction
    band: tuple[float, float]
    max_steps: int
    tools: tuple[ToolSchema, ...]
    state_schema: str
    baseline: tuple[Episode, ...]
    """K rollouts of the policy on the base stack, complete."""
    measured: Measurement
    """The baseline in figures."""
    diagnosis: Diagnosis
    wins: tuple[tuple[Action, ...], ...]
    """Action lists known to win from the start of the base stack, shortest first. The policy's own, or, where the run
    allows it and the policy has none, the benchmark's reference. May be empty."""
    rounds: tuple[Round, ...] = ()
    """Every candidate so far, with what the checks and the rollouts said; a failed check leaves an entry, too."""
    latest: tuple[Episode, ...] = ()
    """The rollouts of the last candidate that was measured."""


@runtime_checkable
class Designer(Protocol):
    """Writes candidates. One instance a task; what it proposes depends on the evidence alone.

    A run that was killed asks again with the same evidence, so `propose` must answer the same: no memory of its own,
    no clock, no global randomness.
    """

    def propose(self, evidence: Evidence) -> Candidate | None:
        """Return the next candidate, or None where it has nothing more to try: the task is then rejected."""
        ...


def build_designer(config: DesignerConfig) -> Designer:
    """Make the designer that a configuration names. Raises UnknownIdError, PluginError or ConfigError."""
    factory = load("designer", config.id)
    try:
        designer = factory(**config.options)
    except TypeError as error:
        raise ConfigError(f"designer.options: {config.id!r} does not take them: {error}") from error
    if not isinstance(designer, Designer):
        raise ConfigError(f"designer {config.id!r} has no propose(); see envharness.rigger.designers.base.Designer")
    return designer
