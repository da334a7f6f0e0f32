"""Conformance checks on the verifier and on saving: who wins, and what a snapshot is worth."""

from __future__ import annotations

from envharness.testing.conformance_subject import NotApplicable, Subject, fail, require_equal, saved


def noop_fails(subject: Subject) -> str:
    """To do nothing is no solution."""
    with subject.fresh() as env:
        subject.start(env)
        verdict = env.evaluate()
    if verdict.success:
        fail("the verifier calls it a success before anything was done")
    return f"doing nothing is no success (score {verdict.score:g})"


def reference_verifies(subject: Subject) -> str:
    """The reference solution wins."""
    solution = subject.reference
    if solution is None:
        raise NotApplicable("reference_solution() is None: the benchmark has none")
    with subject.fresh() as env:
        subject.start(env)
        for index, action in enumerate(solution):
            response = env.step(action)
            if reason := response.info.get("refused"):
                fail(f"action {index} of the reference solution was refused: {reason}")
            if response.terminated or response.truncated:
                break
        verdict = env.evaluate()
    if not verdict.success:
        fail(f"the verifier does not call the reference solution a success (score {verdict.score:g})")
    return f"the reference solution of {len(solution)} actions wins"


def save_and_load(subject: Subject) -> str:
    """What `save_state` returns makes an environment again: in mid-episode where declared, else ready to reset."""
    with subject.fresh() as env:
        start = subject.start(env)
        subject.play(env, subject.opening)
        load = saved(env)
        if subject.capabilities.state == "full":
            here = subject.state(env), env.observe(), env.evaluate()
            with load() as copy:
                for name, expected, found in zip(
                    ("state", "observation", "verdict"),
                    here,
                    (subject.state(copy), copy.observe(), copy.evaluate()),
                    strict=True,
                ):
                    if expected != found:
                        fail(f"the {name} after loading is not that before saving: {found} instead of {expected}")
            return f"a snapshot after {len(subject.opening)} steps shows the same state, observation and verdict"
        with load() as copy:
            require_equal([start], [subject.start(copy)], "a copy made from save_state() was reset")
    return "a copy made from save_state() starts as the original does"


def snapshot_equals_replay(subject: Subject) -> str:
    """To go on from a snapshot is the same as to go on."""
    if subject.capabilities.state != "full":
        raise NotApplicable("capabilities.state is episode_boundary: the middle of an episode is not saved")
    rest = subject.actions[len(subject.opening) :]
    with subject.fresh() as env:
        subject.start(env)
        subject.play(env, subject.opening)
        load = saved(env)
        expected = subject.play(env, rest)
        verdict = env.evaluate()
        with load() as copy:
            require_equal(expected, subject.play(copy, rest), "the play went on from a snapshot")
            if copy.evaluate() != verdict:
                fail("the verdict after going on from a snapshot is another one")
    return f"{len(rest)} steps on from a snapshot are as they were without"
