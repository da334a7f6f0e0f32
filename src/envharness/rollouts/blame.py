"""Whose failure it was: turns what was raised in an episode into the cause that makes it invalid."""

from __future__ import annotations

from pydantic import ValidationError

from envharness.core.errors import (
    ComponentFault,
    EnvHarnessError,
    ProviderRefusedError,
    SandboxUnavailableError,
    SpecError,
    TimeLimitError,
    ZygoteError,
)
from envharness.core.messages import one_line
from envharness.core.trace import Episode, InvalidCause, Outcome
from envharness.rollouts.job import RolloutJob

_DETAIL_LENGTH = 500


class EpisodeInvalid(Exception):
    """Ends an episode as invalid from deep inside it; never leaves `play`."""

    def __init__(self, cause: InvalidCause, detail: str) -> None:
        super().__init__(f"{cause}: {detail}")
        self.outcome = Outcome(kind="invalid", reason=cause, detail=detail)


def environment_cause(error: Exception) -> InvalidCause:
    """Return whose failure an exception from the stack is: its components', the sandbox's, or the environment's."""
    if isinstance(error, ComponentFault):
        return "component_fault"
    if (
        isinstance(error, SpecError)
        and error.place.startswith("stack")
        and error.place.endswith((".state", ".component"))
    ):
        # The description of a component, not of the environment: another try would end the same way.
        return "component_fault"
    if isinstance(error, ZygoteError | SandboxUnavailableError):
        return "sandbox_error"
    if isinstance(error, TimeLimitError):
        return "time_limit"
    return "environment_error"


def policy_cause(error: BaseException) -> InvalidCause:
    """Return why an exception from the policy makes the episode invalid."""
    return "provider_refused" if isinstance(error, ProviderRefusedError) else "policy_error"


def describe(error: BaseException, *, doing: str) -> str:
    """Say in one line what was going on and what went wrong."""
    text = (str(error).splitlines() or [""])[0]
    if isinstance(error, ValidationError):
        text = f"{error.title}: {one_line(error)}"
    if not isinstance(error, EnvHarnessError):
        text = f"{type(error).__name__}: {text}" if text else type(error).__name__
    return f"{doing}: {text}"[:_DETAIL_LENGTH]


def worth_another_try(episode: Episode) -> bool:
    """Whether the episode says nothing about policy or component, so that another attempt may.

    One that the provider refused does not get it: no attempt can end otherwise, and the run is about to stop.
    """
    return not episode.valid and episode.outcome.reason not in {"component_fault", "provider_refused"}


def refused_by_provider(episode: Episode) -> bool:
    """Whether the episode failed on key, permission or model, so that every other one would as well."""
    return not episode.valid and episode.outcome.reason == "provider_refused"


def after(former: Episode | None, episode: Episode) -> Episode:
    """Return `episode` with what a `former` attempt at the same rollout used; None: there was none."""
    if former is None:
        return episode
    return episode.model_copy(update={"wasted": episode.wasted + former.usage + former.wasted})


def lost(job: RolloutJob, cause: InvalidCause, detail: str, *, attempt: int, worker: str) -> Episode:
    """Return the episode of which nothing but its end is known."""
    return Episode(
        task=job.task,
        index=job.index,
        seed=job.policy_seed,
        outcome=Outcome(kind="invalid", reason=cause, detail=detail),
        attempt=attempt,
        worker=worker,
    )
