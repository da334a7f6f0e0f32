"""`check_env`: holds an environment to the contract of ActionableEnv and to what it declares of itself."""

from __future__ import annotations

from collections.abc import Callable, Collection
from dataclasses import dataclass
from typing import Literal, cast

from pydantic import BaseModel, ConfigDict

from envharness.core.env import ActionableEnv
from envharness.core.errors import MissingDataError, SpecError, TaskError, UnknownIdError
from envharness.core.messages import one_line
from envharness.core.spec import StackSpec
from envharness.core.types import Capabilities
from envharness.testing import conformance_capabilities as capabilities
from envharness.testing import conformance_interface as interface
from envharness.testing import conformance_repetition as repetition
from envharness.testing import conformance_verdict as verdict
from envharness.testing.conformance_subject import NotApplicable, Subject, Violation

Checkable = ActionableEnv | StackSpec | Callable[[], ActionableEnv]
"""An environment made by `make`, a stack as data, or a function that makes a new environment at each call."""


class CheckResult(BaseModel):
    """What one check found. `skip` is given only where declared capabilities make no promise to check."""

    model_config = ConfigDict(frozen=True)

    id: str
    status: Literal["pass", "fail", "skip"]
    detail: str


class CheckReport(BaseModel):
    """What all checks found, in a fixed order."""

    model_config = ConfigDict(frozen=True)

    task: str
    checks: tuple[CheckResult, ...]

    @property
    def passed(self) -> bool:
        """Whether no check failed."""
        return not self.failures

    @property
    def failures(self) -> tuple[CheckResult, ...]:
        """The checks that failed."""
        return tuple(check for check in self.checks if check.status == "fail")


@dataclass(frozen=True)
class _Check:
    run: Callable[[Subject], str]

    @property
    def id(self) -> str:
        return self.run.__name__

    @property
    def promise(self) -> str:
        return (self.run.__doc__ or "").splitlines()[0]


_CHECKS = tuple(
    _Check(run)
    for run in (
        repetition.same_seed_same_start,
        repetition.second_reset_same_start,
        repetition.same_actions_same_states,
        repetition.seeds_differ,
        repetition.observe_changes_nothing,
        repetition.evaluate_changes_nothing,
        repetition.global_random_untouched,
        interface.state_matches_schema,
        interface.state_is_json,
        interface.state_is_a_copy,
        interface.volatile_keys_exist,
        interface.tool_schemas,
        interface.unknown_tool_refused,
        interface.ill_typed_call_refused,
        interface.rewards_are_numbers,
        interface.tasks_are_listed,
        interface.step_before_reset,
        interface.step_after_end,
        interface.close_twice,
        verdict.noop_fails,
        verdict.reference_verifies,
        verdict.goal_reading_agrees,
        verdict.save_and_load,
        verdict.snapshot_equals_replay,
        capabilities.resume_as_declared,
        capabilities.step_limit_as_declared,
        capabilities.replay_is_not_charged,
        capabilities.instances_are_isolated,
        capabilities.threads_as_declared,
        capabilities.forks_as_declared,
    )
)

CHECKS: dict[str, str] = {check.id: check.promise for check in _CHECKS}
"""The id of every check and the promise it holds an environment to. Ids are stable."""


def check_env(
    env: Checkable,
    *,
    seed: int = 0,
    max_steps: int = 50,
    only: Collection[str] | None = None,
    on_result: Callable[[CheckResult], None] | None = None,
) -> CheckReport:
    """Run the conformance checks on fresh copies of an environment; `env` itself is not touched.

    `seed` is given to reset and decides the actions where there is no reference solution; `max_steps` bounds the
    actions of one play; `only` names the checks to run; `on_result` is told each result as it comes. An environment
    that cannot even be made raises its own error. Raises SpecError where `env` was constructed directly, so that nobody
    knows how to copy it: pass a function then.
    """
    if unknown := sorted(set(only or ()) - CHECKS.keys()):
        raise UnknownIdError(f"unknown check {unknown[0]!r} (known: {', '.join(CHECKS)})")
    subject = Subject(maker(env), seed=seed, max_steps=max_steps)
    with subject.fresh() as copy:
        task = copy.task_id
        _require_usable(copy, seed)
    results: list[CheckResult] = []
    for check in _CHECKS:
        if only is None or check.id in only:
            results.append(run_check(check.id, subject))
            if on_result is not None:
                on_result(results[-1])
    return CheckReport(task=task, checks=tuple(results))


def _require_usable(env: ActionableEnv, seed: int) -> None:
    """Raise once what would otherwise be every check's finding: missing data, a task that cannot be loaded."""
    if not isinstance(cast("object", env.capabilities), Capabilities):
        raise SpecError(f"{type(env).__name__}.capabilities is not a Capabilities; is it a method without @property?")
    try:
        env.reset(seed)
    except (MissingDataError, TaskError):
        raise
    except Exception:  # noqa: BLE001  the checks will say what and where
        return


def run_check(check_id: str, subject: Subject) -> CheckResult:
    """Run one check."""
    check = next(check for check in _CHECKS if check.id == check_id)
    try:
        return CheckResult(id=check_id, status="pass", detail=check.run(subject))
    except NotApplicable as reason:
        return CheckResult(id=check_id, status="skip", detail=str(reason))
    except Violation as violation:
        return CheckResult(id=check_id, status="fail", detail=str(violation))
    except Exception as error:  # noqa: BLE001  whatever an environment raises where it must not is a finding
        return CheckResult(id=check_id, status="fail", detail=f"raised {type(error).__name__}: {one_line(error)}")


def maker(env: Checkable) -> Callable[[], ActionableEnv]:
    """Return what makes fresh copies of `env`. Raises SpecError where nobody knows how."""
    if isinstance(env, StackSpec):
        return env.build
    if not isinstance(env, ActionableEnv):
        return env
    try:
        return env.spec.build
    except SpecError as error:
        raise SpecError(f"{error}; or pass check_env a function that makes one") from error
