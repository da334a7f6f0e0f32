"""The contract of a designer: it is shown evidence and answers with a candidate."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Protocol, runtime_checkable

from envharness.core.errors import ConfigError
from envharness.core.policy import PolicySpec
from envharness.core.registry import load
from envharness.core.trace import Episode
from envharness.core.types import Action, ToolSchema
from envharness.llm.config import ModelConfig
from envharness.rigger.config import AcceptanceConfig, DesignerConfig
from envharness.rigger.records import Candidate, Diagnosis, Direction, FailureLabel, Measurement, Prediction, Round
from envharness.rigger.requests import Batch, Work


@dataclass(frozen=True)
class Evidence:
    """All that a designer is told. The verifier's inside and, unless the run allows it, the reference are not in it."""

    task: str
    seed: int
    """The root of every random choice the designer makes for this task. Never the global RNG."""
    direction: Direction
    band: tuple[float, float]
    acceptance: AcceptanceConfig
    """How sure the gate wants to be."""
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
    failures: tuple[FailureLabel, ...] = ()
    """The lost rollouts of the baseline, as a designer that reads them labelled them."""


@runtime_checkable
class Designer(Protocol):
    """Writes candidates. One instance a task; what it proposes depends on the evidence alone.

    Where a rule of probabilities leaves a candidate undecided, it is played on. A designer that says where the next
    rollouts go by itself has a method `steers(acceptance) -> bool`: where that is true, it is asked after every batch.

    A run that was killed asks again with the same evidence, so `propose` must answer the same: no memory of its own,
    no clock, no global randomness.
    """

    def propose(self, evidence: Evidence) -> Candidate | None:
        """Return the next candidate, or None where it has nothing more to try: the task is then rejected."""
        ...


@dataclass(frozen=True)
class Proposal:
    """What an asking designer comes back with: a candidate, or exactly one reason why there is none."""

    candidate: Candidate | None = None
    diagnosis: Diagnosis | None = None
    """Its own, which the candidate is written on; None leaves the round that of the measured flaws."""
    prediction: Prediction | None = None
    problem: str = ""
    """The answer holds no candidate: a failed check, told to the next attempt."""
    unanswered: str = ""
    """Our side failed (no model answered): nothing is decided about the task."""
    gave_up: str = ""
    """It has nothing more to try: the task is rejected."""


@dataclass(frozen=True)
class DesignAttempt:
    """One attempt at a candidate: of which round, and a free look at where actions lead."""

    designer: str
    round: int
    """From 1; 0 before the first round."""
    number: int
    """0-based, within the round; a candidate that failed a free check is written anew within the same round."""
    stage_probe: Callable[[Sequence[Action]], Batch]
    """A batch of one unpaid job: the base stack with a Stage of these actions, on which the policy stops at once."""

    def call_name(self, purpose: str) -> str:
        """Return the name that tells this call from every other one of the task."""
        return f"{self.designer}/round-{self.round}/attempt-{self.number}/{purpose}"


@runtime_checkable
class AskingDesigner(Protocol):
    """Writes candidates by asking a model, and by probing the environment, on its way.

    What it needs it yields, and is sent the reply; all else as for `Designer`: it depends on the evidence and on the
    replies alone, so that a resumed run, which replays the stored replies, comes to the same candidate.
    """

    @property
    def model(self) -> ModelConfig:
        """The model it asks."""
        ...

    def write(self, evidence: Evidence, attempt: DesignAttempt) -> Work[Proposal]:
        """Come to the next candidate, or say why there is none. Never an acceptance: that is for the rollouts."""
        ...

    def label_failures(
        self, evidence: Evidence, episodes: Sequence[Episode], attempt: DesignAttempt
    ) -> Work[tuple[FailureLabel, ...] | None]:
        """Label the lost rollouts among `episodes`; None where they could not be. Informs the next write only."""
        ...


AnyDesigner = Designer | AskingDesigner


def steers(designer: AnyDesigner, acceptance: AcceptanceConfig) -> bool:
    """Whether a designer says itself, after every batch, where the next rollouts go."""
    says = getattr(designer, "steers", None)
    return bool(says(acceptance)) if callable(says) else False


def build_designer(config: DesignerConfig, policy: PolicySpec | None = None) -> AnyDesigner:
    """Make the designer that a configuration names. Raises UnknownIdError, PluginError or ConfigError.

    A class with a true attribute `takes_policy` is given `policy` under that name: one that asks a model takes the
    policy's own unless its options name another.
    """
    factory = load("designer", config.id)
    extra = {"policy": policy} if getattr(factory, "takes_policy", False) else {}
    named, takes_any = _options_of(factory)
    named -= extra.keys()
    known = f"options: {', '.join(sorted(named))}" if named else "it takes none"
    if not takes_any and (unknown := [name for name in config.options if name not in named]):
        raise ConfigError(f"designer.options: {config.id!r} has no option {unknown[0]!r} ({known})")
    try:
        designer = factory(**config.options, **extra)
    except TypeError as error:
        raise ConfigError(f"designer.options: {config.id!r} does not take these values: {error} ({known})") from error
    if not isinstance(designer, Designer | AskingDesigner):
        raise ConfigError(
            f"designer {config.id!r} has neither propose() nor write(); see envharness.rigger.designers.base"
        )
    return designer


def _options_of(factory: Callable[..., Any]) -> tuple[set[str], bool]:
    """Return the names that may be given to a designer, those that its bases take included; and whether any may be."""
    # Of a class its own and inherited constructors, as far as each passes on what it does not know.
    bases = [base for base in factory.__mro__ if base is not object] if isinstance(factory, type) else []
    makers = [vars(base)["__init__"] for base in bases if "__init__" in vars(base)] if bases else [factory]
    named: set[str] = set()
    for maker in makers:
        parameters = inspect.signature(maker).parameters.values()
        named |= {entry.name for entry in parameters if entry.kind in {entry.POSITIONAL_OR_KEYWORD, entry.KEYWORD_ONLY}}
        if all(entry.kind is not entry.VAR_KEYWORD for entry in parameters):
            return named - {"self"}, False
    return named - {"self"}, bool(makers)
