"""Conformance checks that hold an environment to its declared capabilities."""

from __future__ import annotations

import os
import pickle
import select
import signal
import threading
import time
import warnings
from collections.abc import Callable

from envharness.core.errors import LifecycleError, NotResumableError
from envharness.core.glimpse import Glimpse
from envharness.testing.conformance_subject import NotApplicable, Subject, fail, require_equal

FORK_SECONDS = 60.0
"""How long a forked child may take for its half of an episode."""


def resume_as_declared(subject: Subject) -> str:
    """A termination is taken back where declared, and NotResumableError elsewhere."""
    with subject.fresh() as env:
        subject.start(env)
        if not subject.capabilities.resumable:
            try:
                env.resume()
            except NotResumableError as error:
                return f"it says: {error}"
            fail("resume() was accepted although capabilities.resumable is False; raise NotResumableError")
        for action in subject.actions:
            if env.step(action).terminated:
                break
        else:
            fail(f"no termination was reached in {len(subject.actions)} steps, so none could be taken back")
        env.resume()
        try:
            env.step(subject.actions[0])
        except LifecycleError as error:
            fail(f"resume() did not take the termination back: {error}")
    return "the episode went on after resume()"


def step_limit_as_declared(subject: Subject) -> str:
    """The reset option `max_steps` replaces the own step limit where declared."""
    if not subject.capabilities.step_limit_option:
        raise NotApplicable("capabilities.step_limit_option is False: reset takes no max_steps")
    count = len(subject.actions)
    low, high = max(count - 1, 1), 10 * count
    with subject.fresh() as env:
        env.reset(subject.seed, {"max_steps": low})
        ends = [response.terminated or response.truncated for response in map(env.step, subject.actions[:low])]
        if not ends[-1]:
            fail(f"reset was given max_steps={low}, and the episode went on after {low} steps")
        env.reset(subject.seed, {"max_steps": high})
        if any(env.step(action).truncated for action in subject.actions):
            fail(f"reset was given max_steps={high}, and the episode was truncated within {count} steps")
    return f"max_steps={low} ends an episode after {low} steps, max_steps={high} lets {count} be played"


def replay_is_not_charged(subject: Subject) -> str:
    """What a Stage replays is not counted towards the step limit."""
    if not subject.capabilities.step_limit_option:
        raise NotApplicable("capabilities.step_limit_option is False: the limit cannot be set low enough to see it")
    count = len(subject.actions) // 3
    replayed, rest = subject.actions[:count], subject.actions[count:]
    with subject.fresh() as env:
        # Enough for either part, and too little for both.
        env.reset(subject.seed, {"max_steps": len(rest)})
        for action in replayed:
            env.step(action.model_copy(update={"replayed": True}))
        env.notify_replay_complete()
        for index, action in enumerate(rest):
            if env.step(action).truncated and index + 1 < len(rest):
                fail(
                    f"{count} actions were replayed, and then max_steps={len(rest)} truncated after {index + 1} steps; "
                    "count anew in notify_replay_complete()"
                )
    return f"{count} replayed actions leave all {len(rest)} steps of the limit"


def instances_are_isolated(subject: Subject) -> str:
    """Two copies that are used in turns do not disturb each other."""
    if not subject.capabilities.isolated:
        raise NotApplicable("capabilities.isolated is False: copies share a backend")
    expected = subject.opening_alone()
    with subject.fresh() as env, subject.fresh() as other:
        subject.start(env)
        found: list[Glimpse] = []
        for action in subject.opening:
            subject.start(other)
            subject.play(other, subject.opening)
            found += subject.play(env, [action])
        subject.start(other)
        found.append(Glimpse(subject.state(env), None))
    require_equal(expected, found, "another copy was reset and played in between")
    return f"another copy was reset and played between {len(subject.opening)} steps without effect"


def threads_as_declared(subject: Subject) -> str:
    """Two copies play on two threads at once as one does alone."""
    if not subject.capabilities.thread_safe:
        raise NotApplicable("capabilities.thread_safe is False: one thread only")
    expected = subject.opening_alone()
    together = threading.Barrier(2, timeout=FORK_SECONDS)
    found: list[list[Glimpse] | BaseException] = []

    def run() -> None:
        try:
            together.wait()
            found.append(subject.opening_alone())
        except Exception as error:  # noqa: BLE001  whatever it is, it is reported below
            found.append(error)

    threads = [threading.Thread(target=run, daemon=True) for _ in range(2)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    for result in found:
        if isinstance(result, BaseException):
            fail(f"on a thread of its own: {type(result).__name__}: {result}")
        require_equal(expected, result, "two copies played on two threads")
    return "two copies played on two threads at once as one does alone"


def forks_as_declared(subject: Subject) -> str:
    """A forked child goes on with the episode as its parent does."""
    if not subject.capabilities.fork_safe:
        raise NotApplicable("capabilities.fork_safe is False")
    rest = subject.actions[len(subject.opening) :]
    with subject.fresh() as env:
        subject.start(env)
        subject.play(env, subject.opening)
        found = _in_child(lambda: subject.play(env, rest))
        require_equal(subject.play(env, rest), found, "a forked child went on with the episode")
    return f"a child forked after {len(subject.opening)} steps played the other {len(rest)} as its parent did"


def _in_child(play: Callable[[], list[Glimpse]]) -> list[Glimpse]:
    """Run `play` in a forked child and return its result. Raises Violation where the child fails or hangs."""
    reading, writing = os.pipe()
    with warnings.catch_warnings():
        # Other threads may exist here; the child touches only the environment, which vouches for forks.
        warnings.simplefilter("ignore", DeprecationWarning)
        child = os.fork()
    if child == 0:
        try:
            with os.fdopen(writing, "wb") as pipe:
                pickle.dump(_outcome_of(play), pipe)
        finally:
            os._exit(0)
    os.close(writing)
    answer = _read_until(reading, time.monotonic() + FORK_SECONDS)
    if answer is None:
        os.kill(child, signal.SIGKILL)
    os.waitpid(child, 0)
    if not answer:
        fail("a forked child died" if answer == b"" else f"a forked child did not end in {FORK_SECONDS:g} s")
    result: list[Glimpse] | str = pickle.loads(answer)  # noqa: S301  written by our own child above
    return fail(f"a forked child failed: {result}") if isinstance(result, str) else result


def _outcome_of(play: Callable[[], list[Glimpse]]) -> list[Glimpse] | str:
    try:
        return play()
    except Exception as error:  # noqa: BLE001  whatever it is, the parent reports it
        return f"{type(error).__name__}: {error}"


def _read_until(pipe: int, deadline: float) -> bytes | None:
    """Read to the end of the pipe; None where that does not come before the deadline."""
    chunks: list[bytes] = []
    with os.fdopen(pipe, "rb", buffering=0) as stream:
        while select.select([stream], [], [], max(deadline - time.monotonic(), 0.0))[0]:
            chunk = stream.read(1 << 16)
            if not chunk:
                return b"".join(chunks)
            chunks.append(chunk)
    return None
