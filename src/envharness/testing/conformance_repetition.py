"""Conformance checks on repetition: what the same seed and the same actions give, and what must change nothing."""

from __future__ import annotations

import random
import sys
from collections.abc import Callable
from typing import Any

from envharness.core.env import ActionableEnv
from envharness.core.glimpse import Glimpse
from envharness.testing.conformance_subject import NotApplicable, Subject, fail, require_equal

SEEDS_TRIED = 4
"""So many seeds must not all start alike; two may, where there are few starts."""


def same_seed_same_start(subject: Subject) -> str:
    """The same seed gives the same start in two copies."""
    starts: list[Glimpse] = []
    for _ in range(2):
        with subject.fresh() as env:
            starts.append(subject.start(env))
    require_equal(starts[:1], starts[1:], f"seed {subject.seed} was used twice")
    return f"seed {subject.seed} starts alike in two copies"


def second_reset_same_start(subject: Subject) -> str:
    """A second reset gives the start of the first, whatever was played in between."""
    if not subject.capabilities.reversible:
        raise NotApplicable("capabilities.reversible is False: a reset does not undo an episode")
    with subject.fresh() as env:
        first = subject.start(env)
        subject.play(env, subject.opening)
        require_equal([first], [subject.start(env)], "the environment was reset a second time")
    return f"a reset after {len(subject.opening)} steps starts as the first did"


def same_actions_same_states(subject: Subject) -> str:
    """The same actions give the same states, observations and rewards step by step."""
    plays: list[list[Glimpse]] = []
    for _ in range(2):
        with subject.fresh() as env:
            subject.start(env)
            plays.append(subject.play(env, subject.actions))
    require_equal(plays[0], plays[1], "the same actions were played twice")
    return f"{len(subject.actions)} actions lead through the same states twice"


def seeds_differ(subject: Subject) -> str:
    """Another seed gives another start."""
    if not subject.capabilities.seeded:
        raise NotApplicable("capabilities.seeded is False: the seed changes nothing")
    seeds = [subject.seed + offset for offset in range(SEEDS_TRIED)]
    starts: list[Glimpse] = []
    for seed in seeds:
        with subject.fresh() as env:
            starts.append(subject.start(env, seed))
    if all(start == starts[0] for start in starts):
        fail(
            f"seeds {seeds[0]} to {seeds[-1]} all start alike; declare seeded=False if the seed is meant to do nothing"
        )
    return f"seeds {seeds[0]} to {seeds[-1]} do not all start alike"


def observe_changes_nothing(subject: Subject) -> str:
    """`observe` can be called at any time, gives the same each time, and leaves no trace."""

    def look(env: ActionableEnv) -> None:
        if env.observe() != env.observe() and not subject.capabilities.volatile_state_keys:
            fail("two calls of observe() in a row returned different observations")

    return _leaves_no_trace(subject, look, "observe")


def evaluate_changes_nothing(subject: Subject) -> str:
    """The verifier can be asked at any time, says the same each time, and leaves no trace."""

    def judge(env: ActionableEnv) -> None:
        if env.evaluate() != env.evaluate():
            fail("two calls of evaluate() in a row returned different verdicts")

    return _leaves_no_trace(subject, judge, "evaluate")


def _leaves_no_trace(subject: Subject, call: Callable[[ActionableEnv], None], name: str) -> str:
    expected = subject.opening_alone()
    with subject.fresh() as env:
        subject.start(env)
        found: list[Glimpse] = []
        for action in subject.opening:
            call(env)
            found += subject.play(env, [action])
        call(env)
        found.append(Glimpse(subject.state(env), None))
    require_equal(expected, found, f"{name}() was called before each step")
    return f"{name}() was called twice before each of {len(subject.opening)} steps and nothing came of it"


def global_random_untouched(subject: Subject) -> str:
    """The process-wide random generators are neither read nor seeded."""
    before, numpy_before = random.getstate(), _numpy_state()
    try:
        # Moved on first: an environment that seeds always with the same value would else find that state already there.
        random.random()
        marks = random.getstate(), _numpy_state(advance=True)
        with subject.fresh() as env:
            subject.start(env)
            subject.play(env, subject.opening)
            env.observe()
            env.evaluate()
        if random.getstate() != marks[0]:
            fail("the global generator of module random was read or seeded; use random.Random(seed)")
        if _numpy_state() != marks[1]:
            fail("numpy's global generator was read or seeded; use numpy.random.default_rng(seed)")
    finally:
        random.setstate(before)
        if numpy_before is not None:
            sys.modules["numpy"].random.set_state(numpy_before)
    return "random and, where it is loaded, numpy.random were left alone"


def _numpy_state(*, advance: bool = False) -> Any:
    """Return numpy's global state in a form that can be compared; None where numpy is not loaded."""
    numpy: Any = sys.modules.get("numpy")
    if numpy is None:
        return None
    if advance:
        numpy.random.random()
    name, keys, position, has_gauss, gauss = numpy.random.get_state()
    return name, tuple(keys.tolist()), position, has_gauss, gauss
