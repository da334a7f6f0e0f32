"""The conformance checks: who keeps every promise passes, and who breaks one fails that check and no other."""

from __future__ import annotations

import os
import random
import re
import subprocess
import sys
import threading
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, Self

import pytest

from envharness.components.chain import Chain
from envharness.components.contract import Contract
from envharness.components.stage import Stage
from envharness.core.env import ActionableEnv
from envharness.core.errors import SpecError, ThreadError, UnknownIdError
from envharness.core.spec import StackSpec, make
from envharness.core.tool import Tool
from envharness.core.types import (
    Action,
    Capabilities,
    EnvResponse,
    EvaluationResult,
    JsonDict,
    Observation,
    ResetResponse,
    StepInfo,
)
from envharness.testing import CHECKS, CheckResult, check_env
from environments import BACK, FORWARD, Corridor, Ladder

LENGTH = 6
"""Long enough that the second half of a play is not part of its opening."""
BROKEN: list[tuple[type[Corridor], str]] = []


def breaks(check: str) -> Any:
    """Register a corridor that breaks exactly one promise."""

    def register(broken: type[Corridor]) -> type[Corridor]:
        BROKEN.append((broken, check))
        return broken

    return register


class Sound(Corridor):
    """Keeps every promise."""

    made = 0

    def __init__(self) -> None:
        super().__init__(LENGTH)
        Sound.made += 1
        self.number = Sound.made

    def declaring(self, **changes: Any) -> Capabilities:
        return super().capabilities.model_copy(update=changes)


@breaks("same_seed_same_start")
class EveryInstanceStartsElsewhere(Sound):
    def _start(self, seed: int | None, options: JsonDict) -> ResetResponse:
        super()._start(seed, options)
        return ResetResponse(observation=Observation(text=f"Corridor number {self.number}."))


@breaks("second_reset_same_start")
class ResetLeavesTraces(Sound):
    def _start(self, seed: int | None, options: JsonDict) -> ResetResponse:
        response = super()._start(seed, options)
        if self.resets > 1:
            self.colour += ", scratched"
        return response


@breaks("same_actions_same_states")
class DeepInsideItDiffers(Sound):
    def answer(self, text: str, *, terminated: bool = False, ineffective: bool = False) -> EnvResponse:
        if self.position > LENGTH / 2:
            self.colour = f"number {self.number}"
        return super().answer(text, terminated=terminated, ineffective=ineffective)

    def save_state(self) -> JsonDict:
        return {**super().save_state(), "number": self.number}

    @classmethod
    def from_state(cls, state: JsonDict, **options: Any) -> Self:
        env = super().from_state(state, **options)
        env.number = int(str(state["number"]))
        return env


@breaks("seeds_differ")
class EverySeedIsOne(Sound):
    def _start(self, seed: int | None, options: JsonDict) -> ResetResponse:
        return super()._start(None, options)


@breaks("observe_changes_nothing")
class ToLookWearsThePaint(Sound):
    def observe(self) -> Observation:
        shown = super().observe()
        self.colour += "."
        return shown


@breaks("observe_changes_nothing")
class NeverLooksTheSame(Sound):
    looks = 0

    def observe(self) -> Observation:
        self.looks += 1
        return Observation(text=f"Look {self.looks}.")


@breaks("evaluate_changes_nothing")
class ToJudgeWearsThePaint(Sound):
    def evaluate(self) -> EvaluationResult:
        self.colour += "."
        return super().evaluate()


@breaks("evaluate_changes_nothing")
class JudgesByTheHour(Sound):
    hours = 0

    def evaluate(self) -> EvaluationResult:
        self.hours += 1
        verdict = super().evaluate()
        return verdict.model_copy(update={"metrics": {"odd": self.hours % 2}})


@breaks("global_random_untouched")
class SeedsTheProcess(Sound):
    def _start(self, seed: int | None, options: JsonDict) -> ResetResponse:
        random.seed(0)
        return super()._start(seed, options)


@breaks("global_random_untouched")
class DrawsFromTheProcess(Sound):
    def evaluate(self) -> EvaluationResult:
        random.random()
        return super().evaluate()


@breaks("state_matches_schema")
class ForgetsAKey(Sound):
    def env_state_schema(self) -> str:
        return super().env_state_schema().replace("steps: int - calls so far", "")


@breaks("state_matches_schema")
class DescribesInProse(Sound):
    def env_state_schema(self) -> str:
        return "The state is a corridor."


@breaks("state_is_json")
class HasATuple(Sound):
    def get_env_state(self) -> JsonDict:
        walls: Any = ("left", "right")
        return {**super().get_env_state(), "walls": walls}

    def env_state_schema(self) -> str:
        return super().env_state_schema() + "\nwalls: any - both"


@breaks("state_is_json")
class HasASet(Sound):
    def get_env_state(self) -> JsonDict:
        walls: Any = {"left", "right"}
        return {**super().get_env_state(), "walls": walls}

    def save_state(self) -> JsonDict:
        return {**super().save_state(), "walls": None}

    def env_state_schema(self) -> str:
        return super().env_state_schema() + "\nwalls: any - both"


@breaks("state_is_a_copy")
class HandsOutItsInside(Sound):
    def __init__(self) -> None:
        super().__init__()
        self.marks: Any = {"here": [1, 2]}

    def get_env_state(self) -> JsonDict:
        return {**super().get_env_state(), "marks": self.marks}

    def env_state_schema(self) -> str:
        return super().env_state_schema() + "\nmarks: dict[list[int]] - on the wall"


@breaks("volatile_keys_exist")
class DeclaresAClockItHasNot(Sound):
    @property
    def capabilities(self) -> Capabilities:
        return self.declaring(volatile_state_keys=("clock",))


class _Whistle(Tool):
    name = "whistle"

    def __init__(self, corridor: Corridor) -> None:
        self._corridor = corridor

    def invoke(self) -> EnvResponse:
        return self._corridor.answer("You whistle.")


class _Hum(_Whistle):
    name = "hum a tune"

    def invoke(self) -> EnvResponse:
        """Hum a tune."""
        return self._corridor.answer("You hum.")


@breaks("tool_schemas")
class SaysNothingOfATool(Sound):
    def tools(self) -> Sequence[Tool]:
        return [*super().tools(), _Whistle(self)]


@breaks("tool_schemas")
class NamesAToolInWords(Sound):
    def tools(self) -> Sequence[Tool]:
        return [*super().tools(), _Hum(self)]


@breaks("tool_schemas")
class HasAToolTwice(Sound):
    def tools(self) -> Sequence[Tool]:
        return [*super().tools(), super().tools()[0]]


@breaks("tool_schemas")
class HidesItsToolsAtTheGoal(Sound):
    def tools(self) -> Sequence[Tool]:
        return super().tools()[:2] if 0 < self.position < LENGTH else super().tools()


@breaks("unknown_tool_refused")
class TakesAnythingForWalking(Sound):
    def step(self, action: Action) -> EnvResponse:
        known = {tool.name for tool in self.tools()}
        return super().step(action if action.name in known else FORWARD)


@breaks("unknown_tool_refused")
class IsThrownByTheUnknown(Sound):
    def step(self, action: Action) -> EnvResponse:
        next(tool for tool in self.tools() if tool.name == action.name) if self._phase == "running" else None
        return super().step(action)


@breaks("ill_typed_call_refused")
class IgnoresArguments(Sound):
    def step(self, action: Action) -> EnvResponse:
        return super().step(action.model_copy(update={"kwargs": {}}))


@breaks("rewards_are_numbers")
class RewardsWithoutMeasure(Sound):
    def step_reward(self, info: StepInfo) -> float:
        return float("nan")


@breaks("rewards_are_numbers")
class CannotReward(Sound):
    def step_reward(self, info: StepInfo) -> float:
        raise ZeroDivisionError("no progress at all")


@breaks("tasks_are_listed")
class ListsTasksAsTheyCome(Sound):
    def list_tasks(self) -> list[str]:
        return ["b", "a"]


@breaks("step_before_reset")
class StartsByItself(Sound):
    def step(self, action: Action) -> EnvResponse:
        if self._phase == "new":
            self.reset()
        return super().step(action)


@breaks("step_after_end")
class GoesOnAfterTheEnd(Sound):
    def step(self, action: Action) -> EnvResponse:
        return self.answer("Over.") if self._phase == "ended" else super().step(action)


@breaks("close_twice")
class ClosesOnce(Sound):
    def close(self) -> None:
        if self._phase == "closed":
            raise RuntimeError("closed already")
        super().close()


@breaks("close_twice")
class NeverCloses(Sound):
    def close(self) -> None:
        """Leave everything as it is."""


@breaks("noop_fails")
class WonFromTheStart(Sound):
    def evaluate(self) -> EvaluationResult:
        verdict = super().evaluate()
        return verdict.model_copy(update={"success": verdict.success or self.steps == 0})

    def goal_reached(self, state: JsonDict) -> bool | None:
        return None


@breaks("reference_verifies")
class MisleadingReference(Sound):
    def reference_solution(self) -> list[Action]:
        return [FORWARD, BACK] * 3


@breaks("reference_verifies")
class StumblingReference(Sound):
    def reference_solution(self) -> list[Action]:
        return [Action(name="leap"), *[FORWARD] * LENGTH]


@breaks("goal_reading_agrees")
class TakesTheFirstStepForTheGoal(Sound):
    def goal_reached(self, state: JsonDict) -> bool | None:
        return state["position"] != 0


@breaks("goal_reading_agrees")
class MissesTheGoal(Sound):
    def goal_reached(self, state: JsonDict) -> bool | None:
        return False


@breaks("goal_reading_agrees")
class ChangesItsMind(Sound):
    asked = 0

    def goal_reached(self, state: JsonDict) -> bool | None:
        self.asked += 1
        return super().goal_reached(state) if self.asked % 2 else None


@breaks("goal_reading_agrees")
class WearsThePaintByReading(Sound):
    def goal_reached(self, state: JsonDict) -> bool | None:
        self.colour += "."
        return super().goal_reached(state)


@breaks("goal_reading_agrees")
class ScribblesOnTheState(Sound):
    def goal_reached(self, state: JsonDict) -> bool | None:
        return state.pop("position") == LENGTH if "position" in state else False


@breaks("save_and_load")
class SavesItsInside(Sound):
    """Its snapshot holds a handle; the check on replay cannot save it either."""

    @property
    def capabilities(self) -> Capabilities:
        return self.declaring(state="episode_boundary")

    def save_state(self) -> JsonDict:
        handle: Any = self
        return {**super().save_state(), "handle": handle}


@breaks("save_and_load")
class ForgetsWhatItSaid(Sound):
    @classmethod
    def from_state(cls, state: JsonDict, **options: Any) -> Self:
        return super().from_state({**state, "text": "Where am I?"}, **options)


@breaks("snapshot_equals_replay")
class WakesUpTired(Sound):
    @classmethod
    def from_state(cls, state: JsonDict, **options: Any) -> Self:
        env = super().from_state(state, **options)
        env._limit = env.steps + 1
        return env


@breaks("resume_as_declared")
class ResumesUnasked(Sound):
    def resume(self) -> None:
        """Do nothing, and not say so."""


@breaks("resume_as_declared")
class CannotResumeAsDeclared(Sound):
    @property
    def capabilities(self) -> Capabilities:
        return self.declaring(resumable=True)

    def resume(self) -> None:
        """Do nothing."""


@breaks("step_limit_as_declared")
class KeepsItsOwnLimit(Sound):
    def _start(self, seed: int | None, options: JsonDict) -> ResetResponse:
        return super()._start(seed, {})


@breaks("step_limit_as_declared")
class HasAnUpperLimitOfItsOwn(Sound):
    def _start(self, seed: int | None, options: JsonDict) -> ResetResponse:
        response = super()._start(seed, options)
        self._limit = 2 if self._limit > 50 else self._limit
        return response


@breaks("replay_is_not_charged")
class ChargesTheReplay(Sound):
    def notify_replay_complete(self) -> None:
        """Go on counting."""


@breaks("instances_are_isolated")
class OneCorridorForAll(Sound):
    """Its position is one for all instances."""

    shared = 0

    @property
    def capabilities(self) -> Capabilities:
        return self.declaring(thread_safe=False)

    @property
    def position(self) -> int:
        return OneCorridorForAll.shared

    @position.setter
    def position(self, value: int) -> None:  # pyright: ignore[reportIncompatibleVariableOverride]  this is the fault
        OneCorridorForAll.shared = value


@breaks("threads_as_declared")
class BoundToOneThread(Sound):
    def _start(self, seed: int | None, options: JsonDict) -> ResetResponse:
        if threading.current_thread() is not threading.main_thread():
            raise ThreadError("one thread only")
        return super()._start(seed, options)


@breaks("forks_as_declared")
class ForksGoAstray(Sound):
    home = os.getpid()

    def walk(self, by: int) -> EnvResponse:
        return super().walk(by if os.getpid() == self.home else -by)


@breaks("forks_as_declared")
class ForksDie(Sound):
    home = os.getpid()

    def walk(self, by: int) -> EnvResponse:
        if os.getpid() != self.home:
            os._exit(1)
        return super().walk(by)


@pytest.fixture(autouse=True)
def _undisturbed_random() -> Iterator[None]:
    """A broken environment may seed the process; the next test shall not know."""
    before = random.getstate()
    yield
    random.setstate(before)


def test_the_sound_corridor_passes_everything() -> None:
    report = check_env(Sound)
    assert [check for check in report.checks if check.status != "pass"] == []
    assert [check.id for check in report.checks] == list(CHECKS)
    assert report.passed


@pytest.mark.parametrize(("broken", "check"), BROKEN, ids=[broken.__name__ for broken, _ in BROKEN])
def test_a_broken_promise_fails_its_check_and_no_other(broken: type[Corridor], check: str) -> None:
    report = check_env(broken)
    assert [failure.id for failure in report.failures] == [check], report.failures
    assert not report.passed


def test_every_check_has_an_environment_that_fails_it() -> None:
    assert {check for _, check in BROKEN} == CHECKS.keys()


def test_numpys_generator_is_watched_too() -> None:
    numpy: Any = pytest.importorskip("numpy")

    class DrawsFromNumpy(Sound):
        def _look(self) -> Observation:
            numpy.random.random()
            return super()._look()

    assert [failure.id for failure in check_env(DrawsFromNumpy).failures] == ["global_random_untouched"]


def test_the_checks_leave_the_process_generator_as_it_was() -> None:
    before = random.getstate()
    check_env(Sound)
    assert random.getstate() == before


def test_only_declared_capabilities_excuse() -> None:
    class Modest(Sound):
        @property
        def capabilities(self) -> Capabilities:
            return Capabilities(reversible=False, isolated=False, seeded=False)

        def reference_solution(self) -> None:
            return None

        def save_state(self) -> JsonDict:
            return {"phase": "new"}

    report = check_env(Modest, max_steps=200)
    assert report.passed, report.failures
    assert [check.id for check in report.checks if check.status == "skip"] == [
        "second_reset_same_start",
        "seeds_differ",
        "reference_verifies",
        "snapshot_equals_replay",
        "step_limit_as_declared",
        "replay_is_not_charged",
        "instances_are_isolated",
        "threads_as_declared",
        "forks_as_declared",
    ]
    assert all(check.detail for check in report.checks)


def test_an_end_out_of_reach_is_a_failure_that_says_what_to_do() -> None:
    class Endless(Sound):
        @property
        def capabilities(self) -> Capabilities:
            return self.declaring(step_limit_option=False)

        def reference_solution(self) -> None:
            return None

        def tools(self) -> Sequence[Tool]:
            return super().tools()[1:2]

    report = check_env(Endless, max_steps=5)
    (failure,) = report.failures
    assert failure.id == "step_after_end"
    assert "reference solution" in failure.detail


def test_a_live_environment_is_copied_by_its_description_and_not_touched() -> None:
    env = make("environments:Corridor", length=LENGTH)
    assert check_env(env).passed
    assert isinstance(env, Corridor)
    assert (env.resets, env.closes) == (0, 0)


def test_a_stack_can_be_checked() -> None:
    spec = StackSpec.environment("environments:Corridor", length=LENGTH)
    assert check_env(spec).task == "corridor"
    assert check_env(spec).passed


def test_a_chain_keeps_every_promise() -> None:
    chain = Chain([make("environments:Corridor", length=2), make("environments:Corridor", length=3)], max_steps=20)
    report = check_env(chain)
    assert report.passed, report.failures
    assert [check.id for check in report.checks if check.status == "skip"] == ["snapshot_equals_replay"]


def test_a_stage_keeps_every_promise_of_what_it_wraps() -> None:
    report = check_env(Stage(make("environments:Corridor", length=LENGTH), [FORWARD]))
    assert report.passed, report.failures
    assert all(check.status == "pass" for check in report.checks)


def test_a_contract_gives_up_the_middle_of_an_episode_and_nothing_else() -> None:
    source = """
class _Contract(Contract):
    def filter_observation(self, observation, env_state):
        return Observation(text=observation.text.upper(), data=observation.data)
"""
    report = check_env(Contract(make("environments:Corridor", length=LENGTH), source))
    assert report.passed, report.failures
    assert [check.id for check in report.checks if check.status == "skip"] == ["snapshot_equals_replay"]


def test_a_state_that_is_not_json_cannot_be_saved() -> None:
    report = check_env(make(f"{__name__}:SavesItsInside"), only=["save_and_load"])
    assert report.checks[0].detail.startswith("save_state() is not JSON")


def test_toy24_keeps_every_promise() -> None:
    report = check_env(StackSpec.environment("toy24", task="medium-0003"))
    assert report.passed, report.failures


def test_an_environment_made_by_hand_needs_a_function() -> None:
    with pytest.raises(SpecError, match="pass check_env a function"):
        check_env(Ladder())


def test_an_environment_that_cannot_be_made_raises_its_own_error() -> None:
    def make_nothing() -> ActionableEnv:
        raise FileNotFoundError("no games")

    with pytest.raises(FileNotFoundError, match="no games"):
        check_env(make_nothing)


def test_checks_can_be_chosen_and_watched() -> None:
    seen: list[CheckResult] = []
    report = check_env(Sound, only=["noop_fails", "close_twice"], on_result=seen.append)
    assert [check.id for check in report.checks] == ["close_twice", "noop_fails"]
    assert tuple(seen) == report.checks
    with pytest.raises(UnknownIdError, match="unknown check 'nop'"):
        check_env(Sound, only=["nop"])


def test_the_report_is_json_with_stable_ids() -> None:
    report = check_env(Sound, only=["noop_fails"])
    assert report.model_dump(mode="json") == {
        "task": "corridor",
        "checks": [{"id": "noop_fails", "status": "pass", "detail": "doing nothing is no success (score 0)"}],
    }


def test_a_detail_names_the_moment_and_the_key() -> None:
    (failure,) = check_env(ResetLeavesTraces).failures
    assert "moment 0" in failure.detail
    assert "'colour'" in failure.detail
    assert "scratched" in failure.detail


def test_the_checks_do_not_need_pytest() -> None:
    program = "import sys, envharness.testing; sys.exit('pytest' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", program], check=False).returncode == 0


def test_the_docs_list_every_check() -> None:
    page = (Path(__file__).parents[2] / "docs" / "bridges" / "writing-one.md").read_text()
    assert re.findall(r"^\| `(\w+)` \| (.*) \|$", page, re.MULTILINE) == [
        (check, promise.removesuffix(".")) for check, promise in CHECKS.items()
    ]
