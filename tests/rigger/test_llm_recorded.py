"""The recorded designer of experiments/toy24-llm-designer.yaml: what it gets accepted, and that it aims at the flaws."""

from __future__ import annotations

from pathlib import Path

import pytest

from envharness.cli.config_file import read_config
from envharness.cli.rigging import RigFile
from envharness.core.policy import PolicySpec
from envharness.core.spec import StackSpec
from envharness.rigger.loop import rig
from envharness.rigger.records import RigSummary, TaskResult
from envharness.rigger.results import load_results
from envharness.rollouts.engine import make_engine
from envharness.rollouts.job import RolloutJob
from envharness.store.database import RunStore

pytestmark = pytest.mark.slow

ROOT = Path(__file__).parents[2]
CONFIG = ROOT / "experiments" / "toy24-llm-designer.yaml"
FRESH = 40
"""Rollouts a comparison: enough for the margins asked for below."""

Run = tuple[RigSummary, dict[str, TaskResult], list[tuple[str, str]]]


@pytest.fixture(scope="module")
def recorded(tmp_path_factory: pytest.TempPathFactory) -> Run:
    content = read_config(CONFIG, RigFile).content()
    folder = tmp_path_factory.mktemp("run")
    with pytest.MonkeyPatch.context() as patch, make_engine() as engine:
        patch.chdir(ROOT)
        with RunStore.open(folder, config=content.model_dump(mode="json"), command="rig") as store:
            summary = rig(content, store=store, engine=engine)
            results = {result.task: result for result in load_results(store, "llm")}
            calls = [(str(body["task"]), str(body["role"])) for _, body in store.records("model_call")]
    stale = [result.reason for result in results.values() if result.status == "invalid"]
    assert not stale, f"the prompts have changed: run scripts/record-toy24-designer ({stale[0]})"
    return summary, results, calls


def test_the_recorded_designer_gets_components_accepted_and_the_null_does_not(recorded: Run) -> None:
    summary, results, calls = recorded
    assert (summary.in_band_before, summary.identity_in_band_after) == (0.0, 0.0)
    assert [task for task, result in results.items() if result.status == "accepted"] == [
        "easy-0000",
        "hard-0000",
        "hard-0025",
        "hard-0050",
        "medium-0050",
    ]
    assert results["hard-0075"].status == "rejected"
    assert all(result.diagnosis and result.diagnosis.evidence for result in results.values())
    assert set(calls) == {(task, "designer") for task in results}


def test_only_the_size_was_changed_where_the_type_was_right(recorded: Run) -> None:
    first, second = recorded[1]["easy-0000"].rounds
    assert (first.verdict, second.verdict) == ("too_easy", "in_band")
    assert second.candidate.contract_source == first.candidate.contract_source.replace("REFUSALS = 2", "REFUSALS = 3")


def test_predicted_and_observed_failures_stand_side_by_side(recorded: Run) -> None:
    decisive = recorded[1]["hard-0050"].rounds[-1]
    shift = next(shift for shift in decisive.shifts if shift.label == "never_divided")
    assert (shift.before, shift.after, shift.predicted, shift.observed) == (5, 2, "fewer", "fewer")
    late = recorded[1]["hard-0075"].rounds[-1].shifts
    assert ("stopped_after_two_calls", "same", "more") in [(s.label, s.predicted, s.observed) for s in late]


# Which weaknesses of the solver the accepted component works through, and which way.
AIMS = {
    "easy-0000": ({"stops_too_early": 0.0, "generalises": 0.0}, "hardens"),
    "hard-0000": ({"stops_too_early": 0.0, "generalises": 0.0}, "hardens"),
    "hard-0025": ({"stops_too_early": 0.0, "generalises": 0.0}, "hardens"),
    "medium-0050": ({"stops_too_early": 0.0, "generalises": 0.0}, "hardens"),
    "hard-0050": ({"avoids_division": 0.0}, "scaffolds"),
}


@pytest.mark.parametrize("task", AIMS)
def test_the_accepted_components_aim_at_the_policys_flaw(recorded: Run, task: str) -> None:
    """A policy without the flaw hardly notices an obstacle, and has no need of the help."""
    result = recorded[1][task]
    without, way = AIMS[task]
    flawed = success_rate(result, result.final_stack, {})
    mended = success_rate(result, result.final_stack, without)
    bare = success_rate(result, result.base_stack, without)
    if way == "hardens":
        assert bare - mended < 1.0 - flawed
        assert mended >= flawed + 0.15
    else:
        assert success_rate(result, result.base_stack, {}) < 0.1
        assert flawed >= 0.3
        assert bare >= flawed


def success_rate(result: TaskResult, stack: StackSpec, weaknesses: dict[str, float]) -> float:
    policy = PolicySpec.model_validate({"id": "solver", "options": weaknesses})
    jobs = [
        RolloutJob(task=result.task, stack=stack, policy=policy, env_seed=1, policy_seed=seed, index=seed)
        for seed in range(FRESH)
    ]
    with make_engine() as engine:
        episodes = [episode for _, episode in engine.run(jobs)]
    assert all(episode.valid for episode in episodes)
    return sum(episode.success for episode in episodes) / FRESH
