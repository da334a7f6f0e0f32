"""Plays one episode: the policy decides, the stack answers, the verifier judges, and all of it is written down."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from time import perf_counter
from typing import TypeVar

from envharness.core.env import ActionableEnv
from envharness.core.errors import ProviderError
from envharness.core.json_copy import copied_object
from envharness.core.known import known
from envharness.core.policy import Decision, Policy, PolicySpec, Turn, answer_at_once, is_immediate
from envharness.core.spec import StackSpec
from envharness.core.trace import Episode, Outcome, StartRecord, TraceStep
from envharness.core.types import EvaluationResult, Observation
from envharness.core.usage import NO_USAGE, Meter, Usage
from envharness.rollouts.blame import EpisodeInvalid, describe, environment_cause, policy_cause
from envharness.rollouts.decisions import as_decision
from envharness.rollouts.environment_thread import CallingThread, EnvironmentHost, EnvironmentThread, Series
from envharness.rollouts.interrupts import Terminated
from envharness.rollouts.job import Limits, RolloutJob
from envharness.rollouts.session import Session
from envharness.rollouts.snapshots.snapshots import Snapshots

T = TypeVar("T")

CLOSE_SECONDS = 10.0
"""How long the end of an episode waits for an environment or a policy to close."""


async def play(
    job: RolloutJob,
    *,
    host: EnvironmentHost | None = None,
    attempt: int = 1,
    worker: str = "",
    unsafe_hooks: bool = False,
    snapshots: Snapshots | None = None,
    meter: Meter | None = None,
) -> Episode:
    """Play a job. Whatever goes wrong in it becomes the episode's outcome; only cancellation is raised.

    The environment lives on `host` from construction to close; None is a thread of its own. After the episode,
    `host.stuck` says whether a call still hangs there. `snapshots` are those of the worker; None is none. `meter` knows
    at every moment what the policy has used.
    """
    if host is None:
        thread = EnvironmentThread()
        try:
            return await play(
                job,
                host=thread,
                attempt=attempt,
                worker=worker,
                unsafe_hooks=unsafe_hooks,
                snapshots=snapshots,
                meter=meter,
            )
        finally:
            thread.close()
    played = await play_to_json(
        job,
        host=host,
        attempt=attempt,
        worker=worker,
        unsafe_hooks=unsafe_hooks,
        snapshots=snapshots,
        meter=meter,
    )
    # Read back, so that the episode is the same whichever process played it.
    return Episode.model_validate_json(played)


async def play_to_json(
    job: RolloutJob,
    *,
    host: EnvironmentHost,
    attempt: int,
    worker: str,
    unsafe_hooks: bool,
    snapshots: Snapshots | None = None,
    meter: Meter | None = None,
    when_built: Callable[[ActionableEnv], None] | None = None,
    when_begun: Callable[[], None] | None = None,
) -> bytes:
    """Like `play`; returns the episode as JSON that reads back as one.

    `when_built` is called with the stack once it is built, on the environment's thread. `when_begun` is called on the
    event loop when the environment's thread has come to this episode: its clock starts then, and not at this call.
    """
    notes: list[str] = []

    def build() -> ActionableEnv:
        env = job.stack.build() if snapshots is None else snapshots.build(job.stack, notes.append)
        if when_built is not None:
            when_built(env)
        return env

    session = Session(build, owns=True, record_states=job.record_states, unsafe_hooks=unsafe_hooks)
    performance = _Performance(
        session=session,
        host=host,
        build_policy=lambda: job.policy.build(job.policy_seed),
        owns_policy=True,
        env_seed=job.env_seed,
        limits=job.limits,
        notes=notes,
        meter=meter or Meter(),
        when_begun=when_begun,
    )
    episode = await performance.play(job.task, job.policy_seed)
    return _to_json(episode.model_copy(update={"index": job.index, "attempt": attempt, "worker": worker}))


def run_episode(
    env: ActionableEnv | StackSpec,
    policy: Policy | PolicySpec,
    *,
    seed: int = 0,
    limits: Limits | None = None,
    record_states: bool = True,
) -> Episode:
    """Play one episode and wait for it. `seed` seeds the environment, and the policy where it is a spec.

    An environment or policy that is given live stays the caller's to close; a live environment is called on the
    caller's thread, so that a limit in seconds is noticed only once a call has returned. The task's own failures are in
    the episode's outcome. Raises RuntimeError inside a running event loop: await `play` there.
    """
    _require_no_loop()
    owns_env, owns_policy = isinstance(env, StackSpec), isinstance(policy, PolicySpec)
    thread = EnvironmentThread() if owns_env else None
    build = env.build if isinstance(env, StackSpec) else lambda: env
    performance = _Performance(
        session=Session(build, owns=owns_env, record_states=record_states),
        host=thread or CallingThread(),
        build_policy=(lambda: policy.build(seed)) if isinstance(policy, PolicySpec) else (lambda: policy),
        owns_policy=owns_policy,
        env_seed=seed,
        limits=limits or Limits(),
    )
    try:
        return Episode.model_validate_json(_to_json(asyncio.run(performance.play(None, seed))))
    finally:
        if thread is not None:
            thread.close()


@dataclass
class _Performance:
    """One episode while it is played."""

    session: Session
    host: EnvironmentHost
    build_policy: Callable[[], Policy]
    owns_policy: bool
    env_seed: int
    limits: Limits
    policy: Policy | None = None
    start: StartRecord | None = None
    steps: list[TraceStep] = field(default_factory=list[TraceStep])
    meter: Meter = field(default_factory=Meter)
    notes: list[str] = field(default_factory=list[str])
    shown_bytes: int = 0
    """UTF-8 bytes of observation text shown so far; counted only where there is a limit."""
    limit_reached: str = ""
    """Which limit ended the episode, and at what value; empty where none did."""
    when_begun: Callable[[], None] | None = None
    """Told when the environment's thread takes up the episode, which has all its time from then on."""
    began: float = field(default_factory=perf_counter)
    over: bool = False
    """Whether nothing is waited for any more."""
    judging: bool = False
    """Whether all turns have been played and the verifier is asked."""

    async def play(self, task: str | None, seed: int) -> Episode:
        """Play to the end; `task` None takes the environment's word for which task it is."""
        evaluation: EvaluationResult | None = None
        try:
            async with asyncio.timeout(self.limits.episode_seconds if self.when_begun is None else None) as clock:
                reason, evaluation = await self._run(clock)
            outcome = (
                Outcome(kind="success", detail=self.limit_reached)
                if evaluation.success
                else Outcome(kind="failure", reason=reason, detail=self.limit_reached)
            )
        except EpisodeInvalid as invalid:
            outcome = invalid.outcome
        except TimeoutError:
            detail = f"the episode took longer than {self.limits.episode_seconds:g} s"
            outcome = Outcome(kind="invalid", reason="time_limit", detail=detail)
        except Exception as error:  # noqa: BLE001  a fault of this package must not cost the run
            detail = describe(error, doing=f"turn {len(self.steps)}")
            outcome = Outcome(kind="invalid", reason="internal_error", detail=detail)
        finally:
            self.over = True
            await self._close()
        return Episode(
            task=self.session.task_id if task is None else task,
            seed=seed,
            outcome=outcome,
            evaluation=evaluation if outcome.kind != "invalid" else None,
            start=self.start,
            # A copy, because a call that hangs on the environment's thread is none of this episode any more.
            steps=list(self.steps),
            usage=self.meter.used,
            seconds=perf_counter() - self.began,
            notes=[*self.session.notes, *self.notes],
        )

    async def _run(self, clock: asyncio.Timeout) -> tuple[str, EvaluationResult]:
        """Play until something ends the episode; return the reason it has if it is a failure, and the verdict."""
        self.start = await self._environment(self._starting(clock), "reset")
        self._count_shown(self.start.shown)
        self.policy = policy = await self._blaming_policy(self._make_policy, "making the policy")
        if is_immediate(policy) and isinstance(self.host, EnvironmentThread):
            return await self._played_at_once(self.host, policy, self.start.shown)
        reason, shown = "", self.start.shown
        while not reason:
            step = await self._turn(policy, shown)
            reason, shown = self._taken(step), step.shown
        return reason, await self._environment(self.session.evaluate, "evaluate")

    def _starting(self, clock: asyncio.Timeout) -> Callable[[], StartRecord]:
        """Return what the environment's thread does first: say that it has come to this, and start."""
        loop, when_begun = asyncio.get_running_loop(), self.when_begun

        def begin() -> None:
            if when_begun is not None and not self.over:
                self.began = perf_counter()
                clock.reschedule(loop.time() + self.limits.episode_seconds)
                when_begun()

        def start() -> StartRecord:
            if when_begun is not None:
                loop.call_soon_threadsafe(begin)
            return self.session.start(self.env_seed)

        return start

    async def _turn(self, policy: Policy, shown: Observation) -> TraceStep:
        number, turn = len(self.steps), self._turn_of(shown)

        async def decide() -> Decision:
            return as_decision(answer_at_once(policy.act(turn)) if is_immediate(policy) else await policy.act(turn))

        began = perf_counter()
        decision = await self._blaming_policy(decide, f"turn {number}")
        seconds = perf_counter() - began
        self._charge(decision.usage)
        return await self._environment(lambda: self.session.turn(number, decision, seconds), f"turn {number}")

    async def _played_at_once(
        self, host: EnvironmentThread, policy: Policy, shown: Observation
    ) -> tuple[str, EvaluationResult]:
        """Let an immediate policy and the environment play all turns on the environment's thread."""
        try:
            return await host.series(self._series(policy, shown), self.limits.step_seconds)
        except EpisodeInvalid:
            raise
        except Exception as error:
            raise EpisodeInvalid(environment_cause(error), describe(error, doing=self._doing())) from error

    def _series(self, policy: Policy, shown: Observation) -> Series[tuple[str, EvaluationResult]]:
        reason = ""
        while not reason:
            number = len(self.steps)
            turn = self._turn_of(shown)
            began = perf_counter()
            try:
                decision = as_decision(answer_at_once(policy.act(turn)))
            except BaseException as error:  # not from outside: signals are raised on the main thread only
                raise EpisodeInvalid(policy_cause(error), describe(error, doing=self._doing())) from error
            seconds = perf_counter() - began
            yield True
            self._charge(decision.usage)
            step = self.session.turn(number, decision, seconds)
            yield False  # where it ends if this was given up meanwhile: before anything of it is kept
            reason, shown = self._taken(step), step.shown
        self.judging = True
        yield True
        return reason, self.session.evaluate()

    def _doing(self) -> str:
        return "evaluate" if self.judging else f"turn {len(self.steps)}"

    def _charge(self, usage: Usage) -> None:
        if usage is not NO_USAGE:
            self.meter.used += usage

    def _turn_of(self, shown: Observation) -> Turn:
        # The policy gets a copy: it must not be able to edit the trace.
        copied = known(Observation, {"text": shown.text, "data": copied_object(shown.data)})
        return known(Turn, {"observation": copied, "tools": self.session.tools, "step": len(self.steps)})

    def _taken(self, step: TraceStep) -> str:
        """Add a turn to the trace; return why the episode is over if it is a failure, empty while it goes on."""
        self.steps.append(step)
        self._count_shown(step.shown)
        if step.stopped:
            return "stopped"
        if step.terminated:
            return "ended"
        if step.truncated:
            self.limit_reached = f"the environment's own limit at turn {step.step}"
            return "out_of_steps"
        return self._limit_hit()

    def _limit_hit(self) -> str:
        """Return the reason that a used-up limit gives the episode if it is a failure; empty where none is used up."""
        limits = self.limits
        if limits.policy_tokens is not None and self.meter.used.completion >= limits.policy_tokens:
            return self._stopped_by("token_limit", "policy_tokens", self.meter.used.completion, limits.policy_tokens)
        if limits.observation_bytes is not None and self.shown_bytes > limits.observation_bytes:
            return self._stopped_by(
                "observation_limit", "observation_bytes", self.shown_bytes, limits.observation_bytes
            )
        if len(self.steps) >= limits.max_steps:
            return self._stopped_by("out_of_steps", "max_steps", len(self.steps), limits.max_steps)
        return ""

    def _stopped_by(self, reason: str, limit: str, used: int, allowed: int) -> str:
        self.limit_reached = f"{limit}: {used} of {allowed} at turn {len(self.steps) - 1}"
        return reason

    def _count_shown(self, shown: Observation) -> None:
        if self.limits.observation_bytes is not None:
            # Half a surrogate pair, which no trace can hold, is found and blamed where the trace is written.
            self.shown_bytes += len(shown.text.encode(errors="surrogatepass"))

    async def _make_policy(self) -> Policy:
        return self.build_policy()

    async def _environment(self, function: Callable[[], T], doing: str) -> T:
        """Call the stack on its thread; what it raises is its own or its components' failure."""
        try:
            return await self.host.call(function, self.limits.step_seconds)
        except Exception as error:
            raise EpisodeInvalid(environment_cause(error), describe(error, doing=doing)) from error

    async def _blaming_policy(self, function: Callable[[], Awaitable[T]], doing: str) -> T:
        try:
            return await function()
        except (KeyboardInterrupt, Terminated):
            raise  # these come from outside, wherever they happen to surface
        except BaseException as error:
            task = asyncio.current_task()
            if isinstance(error, asyncio.CancelledError) and task is not None and task.cancelling():
                raise
            if isinstance(error, ProviderError) and error.usage is not None:
                self.meter.used += error.usage
            # An exit, or a cancellation that nobody asked for, is the policy's own and must not take the run along.
            raise EpisodeInvalid(policy_cause(error), describe(error, doing=doing)) from error

    async def _close(self) -> None:
        """Close policy and environment, within bounds; what goes wrong here does not change how the episode ended."""
        if self.policy is not None and self.owns_policy:
            try:
                async with asyncio.timeout(CLOSE_SECONDS):
                    await self.policy.close()
            except Exception as error:  # noqa: BLE001  noted; the episode is complete
                self.notes.append(describe(error, doing="closing the policy"))
        if self.host.stuck:
            self.notes.append("the environment hangs and was abandoned unclosed")
            self.host.post(self.session.close)
            return
        try:
            async with asyncio.timeout(CLOSE_SECONDS):
                await self.host.call(self.session.close, CLOSE_SECONDS)
        except Exception as error:  # noqa: BLE001  noted; the episode is complete
            self.notes.append(describe(error, doing="closing the environment"))


def _to_json(episode: Episode) -> bytes:
    """Serialize an episode; one that cannot be is its environment's fault, which let something else than JSON in."""
    try:
        return episode.model_dump_json(warnings="error").encode()
    except ValueError as error:
        detail = describe(error, doing="the trace is not JSON")
        outcome = Outcome(kind="invalid", reason="environment_error", detail=detail)
        bare = episode.model_copy(update={"outcome": outcome, "start": None, "evaluation": None})
        bare.steps = []
        return bare.model_dump_json().encode()


def _require_no_loop() -> None:
    try:
        asyncio.get_running_loop()
    except RuntimeError:
        return
    raise RuntimeError(
        "run_episode blocks, so it cannot run inside an event loop; there, await envharness.rollouts.episode.play(job)"
    )
