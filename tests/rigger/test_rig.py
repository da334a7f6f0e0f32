"""Whole runs on real worlds: same content whatever the order, the backend and the kills; honest figures."""

from __future__ import annotations

import json
import random
from collections.abc import Iterator
from contextlib import AbstractContextManager
from pathlib import Path
from typing import Any, cast

import pytest

from envharness.components.stack_file import load_stack
from envharness.core.errors import ConfigChangedError, ConfigError, EnvHarnessError
from envharness.core.policy import PolicySpec
from envharness.core.trace import Episode
from envharness.core.types import JsonDict
from envharness.rigger.config import AcceptanceConfig, DesignerConfig, EnvironmentConfig, RigConfig, TaskSelection
from envharness.rigger.loop import rig
from envharness.rigger.records import RigSummary
from envharness.rigger.results import load_results, load_summary
from envharness.rollouts.engine import Engine, make_engine
from envharness.rollouts.job import RolloutJob
from envharness.store.database import RunStore
from rigger.build import config

pytestmark = pytest.mark.slow

TOY: dict[str, Any] = {
    "environment": EnvironmentConfig(id="toy24"),
    "tasks": TaskSelection(count=3, order="spread"),
    "policy": PolicySpec(id="solver"),
    "scaffold_from_reference": True,
    "rounds": 3,
}


class Killed(BaseException):
    """Stands for a SIGKILL: nothing in the rigger may catch it."""


class Wrapped:
    """An engine around the inline one that can die, shuffle and count."""

    def __init__(self, *, dies_after: int | None = None, shuffle: int | None = None) -> None:
        self._engine = make_engine()
        self._dies_after = dies_after
        self._random = None if shuffle is None else random.Random(shuffle)
        self._queued: list[RolloutJob] = []
        self.played: list[str] = []

    def submit(self, job: RolloutJob) -> None:
        self._queued.append(job)

    def next_result(self, timeout: float | None = None) -> tuple[RolloutJob, Episode] | None:
        if self._dies_after is not None and len(self.played) >= self._dies_after:
            raise Killed
        place = 0 if self._random is None else self._random.randrange(len(self._queued))
        job = self._queued.pop(place)
        self._engine.submit(job)
        result = self._engine.next_result()
        self.played.append(job.key)
        return result

    def close(self) -> None:
        self._engine.close()


class Broken(Wrapped):
    """An engine whose workers die under every episode."""

    def next_result(self, timeout: float | None = None) -> tuple[RolloutJob, Episode] | None:
        result = super().next_result(timeout)
        assert result is not None
        job, episode = result
        lost = episode.outcome.model_copy(update={"kind": "invalid", "reason": "worker_died"})
        return job, episode.model_copy(update={"outcome": lost, "evaluation": None})


def opened(folder: Path, settings: RigConfig) -> AbstractContextManager[RunStore]:
    return RunStore.open(folder, config=cast("JsonDict", settings.model_dump(mode="json")), command="rig")


def run(folder: Path, settings: RigConfig, engine: Wrapped | None = None) -> tuple[RigSummary, bytes]:
    engine = engine or Wrapped()
    try:
        with opened(folder, settings) as store:
            summary = rig(settings, store=store, engine=cast("Engine", engine))
            return summary, store.export_canonical()
    finally:
        engine.close()


def test_always_won_and_never_won_puzzles_move_into_the_band(tmp_path: Path) -> None:
    settings = config(**{**TOY, "tasks": TaskSelection(count=6, order="spread"), "rounds": 5, "remeasure": 6})
    summary, _ = run(tmp_path, settings)
    assert summary.tasks == 6
    assert summary.in_band_after >= 0.6
    assert summary.in_band_after > summary.in_band_before
    assert summary.identity_in_band_after is not None
    assert summary.identity_in_band_after <= summary.in_band_after
    assert summary.invalid == 0
    with RunStore.read(tmp_path) as store:
        results = load_results(store, "template")
        assert load_summary(store, "template") == summary
    directions = {result.diagnosis.direction for result in results if result.diagnosis}
    assert {"harden", "scaffold"} <= directions
    for result in results:
        assert all(entry.candidate.rationale and entry.feedback for entry in result.rounds)
        if result.status == "accepted":
            decisive = next(entry for entry in result.rounds if entry.decision == "accept")
            assert decisive.measured is not None
            assert decisive.measured.successes in {2, 3}
            with load_stack(tmp_path / "stacks" / f"{result.task}.json") as env:
                assert env.spec == result.final_stack
                env.reset(0)


def test_a_run_killed_after_each_episode_goes_on_to_the_same_content(tmp_path: Path) -> None:
    only = DesignerConfig(options={"only": ["transient_failure"]})
    settings = config(tasks=["hall-0"], designer=only, rounds=2, rollouts=2)
    reference = Wrapped()
    summary, content = run(tmp_path / "whole", settings, reference)
    assert summary.rollouts < len(reference.played)
    total = len(reference.played)
    assert total >= 10
    for kill_at in range(total):
        folder = tmp_path / f"killed-{kill_at}"
        with pytest.raises(Killed):
            run(folder, settings, Wrapped(dies_after=kill_at))
        second = Wrapped()
        _, resumed = run(folder, settings, second)
        assert resumed == content
        # Whether resets are faithful is asked with two episodes at once, and kept once it is answered.
        assert len(second.played) == total - (kill_at if kill_at >= 2 else 0)


DOSING: dict[str, Any] = {
    **TOY,
    "tasks": ["easy-0025", "hard-0093"],
    "acceptance": AcceptanceConfig(rule="dose", threshold=0.6, cap=35),
    "remeasure": 4,
}


def test_dose_finding_killed_anywhere_goes_on_to_the_same_content(tmp_path: Path) -> None:
    settings = config(**DOSING)
    whole = Wrapped()
    summary, content = run(tmp_path / "whole", settings, whole)
    assert summary.claimed is None or summary.claimed >= 0.6
    assert summary.rollouts_a_task <= 35
    assert summary.audit_all is not None
    assert summary.audit_all.rollouts == 4
    with RunStore.read(tmp_path / "whole") as store:
        rounds = [entry for result in load_results(store, "template") for entry in result.rounds]
    # The same dose again is one world, and its checks are not made again.
    paid = [entry.candidate for entry in rounds if entry.measured is not None]
    assert len({candidate.model_dump_json() for candidate in paid}) < len(paid)
    total = len(whole.played)
    assert total > 60
    for kill_at in random.Random(7).sample(range(total), 3):
        folder = tmp_path / f"killed-{kill_at}"
        with pytest.raises(Killed):
            run(folder, settings, Wrapped(dies_after=kill_at))
        second = Wrapped(shuffle=kill_at)
        _, resumed = run(folder, settings, second)
        assert resumed == content
        assert len(second.played) == total - kill_at


def test_a_finished_run_started_again_plays_nothing(tmp_path: Path) -> None:
    settings = config(tasks=["hall-0"], rounds=2)
    first, content = run(tmp_path, settings)
    again = Wrapped()
    second, same = run(tmp_path, settings, again)
    assert again.played == []
    assert same == content
    assert second.model_copy(update={"seconds": 0.0}) == first.model_copy(update={"seconds": 0.0})


def test_a_decided_task_is_not_planned_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with make_engine() as engine, RunStore.open(tmp_path, config={}, command="rig") as store:
        summary = rig(config(), store=store, engine=engine)

    def refuse(*_: object) -> None:
        raise AssertionError("an environment was built for a task that is decided")

    monkeypatch.setattr("envharness.rigger.loop.view_task", refuse)
    with make_engine() as engine, RunStore.open(tmp_path, config={}, command="rig") as store:
        again = rig(config(), store=store, engine=engine)
    assert again.model_copy(update={"seconds": summary.seconds}) == summary


def test_the_finish_order_does_not_matter(tmp_path: Path) -> None:
    settings = config(**TOY)
    straight = run(tmp_path / "straight", settings)
    shuffled = run(tmp_path / "shuffled", settings, Wrapped(shuffle=1))
    assert straight[1] == shuffled[1]


def test_the_null_shares_the_baseline_and_pays_for_nothing_twice(tmp_path: Path) -> None:
    engine = Wrapped()
    run(tmp_path, config(tasks=["hall-0"], rounds=1), engine)
    assert len(set(engine.played)) == len(engine.played)
    with RunStore.read(tmp_path) as store:
        assert [r.baseline for r in load_results(store, "identity")] == [
            r.baseline for r in load_results(store, "template")
        ]
        assert len(list(store.episodes(phase="rig/baseline"))) == 5


def test_another_seed_is_another_run(tmp_path: Path) -> None:
    _, first = run(tmp_path / "a", config(**TOY))
    _, other = run(tmp_path / "b", config(**TOY, seed=1))
    assert first != other
    with pytest.raises(ConfigChangedError, match="seed"):
        run(tmp_path / "a", config(**TOY, seed=1))


def test_shares_are_over_all_tasks_failed_ones_included(tmp_path: Path) -> None:
    settings = config(tasks=["hall-0", "hall-1", "hall-2"])
    summary, _ = run(tmp_path, settings, Broken())
    assert (summary.tasks, summary.accepted, summary.in_band_after) == (3, 0, 0.0)
    assert summary.invalid == summary.rollouts == 15
    with RunStore.read(tmp_path) as store:
        assert {result.status for result in load_results(store, "template")} == {"invalid"}
        assert list(store.records("task_result")) == []
        assert load_summary(store, "template") == summary


def test_a_run_whose_rollouts_failed_is_tried_again_and_then_decided(tmp_path: Path) -> None:
    settings = config(tasks=["hall-0"], rounds=2)
    _, whole = run(tmp_path / "whole", settings)
    summary, _ = run(tmp_path / "broken", settings, Broken())
    assert summary.invalid == 5
    _, mended = run(tmp_path / "broken", settings)
    assert mended == whole
    with RunStore.read(tmp_path / "broken") as store:
        assert [result.status != "invalid" for result in load_results(store, "template")] == [True]


def test_an_irreversible_world_is_refused_unless_insisted_upon(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match=r"'hall-0'.*not reversible.*insist_irreversible"):
        run(tmp_path / "a", config(environment_options={"reversible": False}))
    run(tmp_path / "b", config(environment_options={"reversible": False}, insist_irreversible=True, rounds=1))


def test_a_run_builds_on_stacks_accepted_before(tmp_path: Path) -> None:
    settings = config(
        tasks=["hall-0", "hall-1"], seed=3, designer=DesignerConfig(options={"only": ["transient_failure"]})
    )
    run(tmp_path / "first", settings)
    files = sorted((tmp_path / "first" / "stacks").glob("*.json"))
    assert files
    on_top = settings.model_copy(update={"stacks": str(tmp_path / "first" / "stacks"), "sharpen": True})
    run(tmp_path / "second", on_top)
    with RunStore.read(tmp_path / "second") as store:
        result = load_results(store, "template")[0]
    assert result.base_stack.stack.kind == "wrapped"
    if result.status == "accepted":
        assert json.loads(result.final_stack.to_json())["stack"]["inner"]["kind"] == "wrapped"


@pytest.mark.parametrize("designer", ["random", "identity"])
def test_the_controls_run_through_the_same_gate(tmp_path: Path, designer: str) -> None:
    settings = config(
        **{**TOY, "designer": DesignerConfig(id=designer), "tasks": TaskSelection(count=2, order="spread")}
    )
    summary, content = run(tmp_path / "a", settings)
    assert summary.designer == designer
    assert run(tmp_path / "b", settings)[1] == content


@pytest.fixture
def pool() -> Iterator[Engine]:
    with make_engine("pool", workers=2) as engine:
        yield engine


@pytest.mark.slow
def test_a_pool_gives_the_same_content(tmp_path: Path, pool: Engine) -> None:
    settings = config(**TOY)
    _, content = run(tmp_path / "inline", settings)
    with opened(tmp_path / "pool", settings) as store:
        rig(settings, store=store, engine=pool)
        assert store.export_canonical() == content


def test_a_pool_finds_the_same_doses(tmp_path: Path, pool: Engine) -> None:
    settings = config(**DOSING)
    _, alone = run(tmp_path / "alone", settings)
    with opened(tmp_path / "pool", settings) as store:
        rig(settings, store=store, engine=pool)
        assert store.export_canonical() == alone


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"policy": PolicySpec(id="rigger.halls:Walker", options={"speed": 3})}, r"rigger.halls:Walker.*'speed'"),
        ({"policy": PolicySpec(id="slover")}, "did you mean 'solver'"),
        ({"policy": PolicySpec(id="solver", options={"favours": 7})}, "favours"),
        ({"designer": DesignerConfig(id="tempalte")}, "unknown designer 'tempalte'"),
        ({"designer": DesignerConfig(options={"only": ["mirror"]})}, "no template 'mirror'"),
        ({"tasks": ["hall-9"]}, "no task 'hall-9'"),
        ({"environment": EnvironmentConfig(id="nowhere")}, "unknown environment 'nowhere'"),
        ({"environment_options": {"size": 3}}, "size"),
    ],
)
def test_what_cannot_run_is_said_before_the_first_rollout(tmp_path: Path, change: dict[str, Any], message: str) -> None:
    engine = Wrapped()
    with pytest.raises(EnvHarnessError, match=message):
        run(tmp_path, config(**change), engine)
    assert engine.played == []
