"""The inheritable suite: one test a check, on an environment or on a stack."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

from envharness.core.env import ActionableEnv
from envharness.core.spec import StackSpec, make
from envharness.testing.conformance import CHECKS
from envharness.testing.suite import ConformanceSuite
from environments import Corridor


class TestCorridor(ConformanceSuite):
    def make_env(self) -> ActionableEnv:
        return Corridor()


class TestToy24(ConformanceSuite):
    seed = 3

    def make_env(self) -> StackSpec:
        return StackSpec.environment("toy24", task="hard-0001")


class TestMadeCorridor(ConformanceSuite):
    def make_env(self) -> ActionableEnv:
        return make("environments:Corridor", length=4, ends_at_goal=False)


BROKEN = """
from environments import Corridor
from envharness.core.types import Capabilities, EvaluationResult
from envharness.testing.suite import ConformanceSuite

class Won(Corridor):
    @property
    def capabilities(self):
        return Capabilities(fork_safe=True)
    def evaluate(self):
        return EvaluationResult(success=True, score=1.0)
    def goal_reached(self, state):
        return None

class TestWon(ConformanceSuite):
    def make_env(self):
        return Won()
"""


def test_a_broken_promise_is_a_failed_test_and_an_excused_one_a_skipped_test(tmp_path: Path) -> None:
    (tmp_path / "test_won.py").write_text(BROKEN)
    command = [
        sys.executable,
        "-m",
        "pytest",
        "-q",
        "-rA",
        "-p",
        "no:cacheprovider",
        "-o",
        f"pythonpath={Path(__file__).parents[1]}",
        str(tmp_path),
    ]
    done = subprocess.run(command, capture_output=True, text=True, check=False, cwd=tmp_path)
    assert done.returncode == 1
    lines = done.stdout.splitlines()
    failed = [line for line in lines if line.startswith("FAILED")]
    assert len(failed) == 1
    assert "test_conformance[noop_fails]" in failed[0]
    assert "before anything was done (the promise: To do nothing is no solution.)" in done.stdout
    assert f"1 failed, {len(CHECKS) - 6} passed, 5 skipped" in lines[-1]
