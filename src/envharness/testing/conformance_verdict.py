"""Conformance checks on the verifier and on saving: who wins, and what a snapshot is worth."""

from __future__ import annotations

import copy
from itertools import repeat

from envharness.core.seeding import stream
from envharness.core.types import Action
from envharness.policies.random import random_action
from envharness.testing.conformance_subject import NotApplicable, Subject, fail, require_equal, saved

RANDOM_WALKS = 3
"""How many walks of random actions the state's word is compared with the verifier's after."""


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


def goal_reading_agrees(subject: Subject) -> str:
    """What `goal_reached` reads off the state is what the verifier says, and to ask it changes nothing."""
    solution = subject.reference or []
    plays = [[], solution[: len(solution) // 2], solution, *(None for _ in range(RANDOM_WALKS))]
    said: list[bool] = []
    for number, actions in enumerate(plays):
        with subject.fresh() as env:
            shown = env.reset(subject.seed).observation
            rng = stream(subject.seed, "conformance", "walk", number)
            for action in actions if actions is not None else repeat(None, subject.max_steps):
                response = env.step(action or random_action(env.tool_schemas(), shown, rng))
                shown = response.observation
                if response.terminated or response.truncated:
                    break
            state, before = env.get_env_state(), subject.state(env)
            kept = copy.deepcopy(state)
            answers = [env.goal_reached(state) for _ in range(2)]
            if answers[0] is not answers[1]:
                fail(f"goal_reached() said {answers[0]} and then {answers[1]} of one state")
            if state != kept:
                fail("goal_reached() wrote to the state it was given; leave it as it is")
            if subject.state(env) != before:
                fail("goal_reached() changed the state of the environment")
            verdict = env.evaluate().success
        if answers[0] is not None:
            said.append(answers[0])
            if answers[0] != verdict:
                fail(f"goal_reached() says {answers[0]} where the verifier says {verdict}, {_after(actions)}")
    if not said:
        raise NotApplicable("goal_reached() is None: the state does not tell whether the goal is reached")
    return f"it agrees with the verifier at the end of {len(said)} plays, {sum(said)} of them won"


def _after(actions: list[Action] | None) -> str:
    if actions is None:
        return "at the end of a random walk"
    return f"after {len(actions)} actions of the reference solution" if actions else "before anything was done"


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
