"""Whole hardening runs: the same content whatever the engine and the kills, and honest about what was lost."""

from __future__ import annotations

from pathlib import Path
from typing import cast

import pytest

from campaign.harden.suites import settings
from envharness.campaign.harden.config import HardenConfig
from envharness.campaign.harden.loop import harden, variant_folder
from envharness.campaign.harden.records import HardenResult
from envharness.campaign.harden.results import COMMAND, load_result
from envharness.components.stack_file import load_stack, read_stack
from envharness.core.errors import ConfigChangedError, ConfigError
from envharness.core.policy import PolicySpec
from envharness.core.trace import Episode, Outcome
from envharness.core.types import JsonDict
from envharness.rigger.config import EnvironmentConfig
from envharness.rollouts.engine import Engine, make_engine
from envharness.rollouts.job import RolloutJob
from envharness.store.database import RunStore

pytestmark = pytest.mark.slow

SMALL = settings(tasks=["hall-0", "hall-1"], rollouts=2, variants=["tools", "staged", "chained"])


class Killed(BaseException):
    """Stands for a SIGKILL: nothing may catch it."""


class Fragile:
    """The inline engine, which can die after so many episodes, or lose those of one policy seed."""

    def __init__(self, *, dies_after: int | None = None, loses: int | None = None) -> None:
        self._engine = make_engine()
        self._dies_after = dies_after
        self._loses = loses
        self.played: list[str] = []

    def submit(self, job: RolloutJob) -> None:
        self._engine.submit(job)

    def next_result(self, timeout: float | None = None) -> tuple[RolloutJob, Episode] | None:
        if self._dies_after is not None and len(self.played) >= self._dies_after:
            raise Killed
        result = self._engine.next_result(timeout)
        assert result is not None
        job, episode = result
        self.played.append(job.key)
        if self._loses == job.index and job.policy.id == SMALL.policy.id:
            gone = Outcome(kind="invalid", reason="worker_died")
            return job, episode.model_copy(update={"outcome": gone, "evaluation": None})
        return job, episode

    def close(self) -> None:
        self._engine.close()


def run(
    folder: Path, config: HardenConfig = SMALL, engine: Fragile | Engine | None = None
) -> tuple[HardenResult, bytes]:
    engine = engine or Fragile()
    recorded = cast("JsonDict", config.model_dump(mode="json"))
    try:
        with RunStore.open(folder, config=recorded, command=COMMAND) as store:
            result = harden(config, store=store, engine=cast("Engine", engine))
            stored = load_result(store)
            assert stored is not None
            assert stored.model_dump(exclude={"seconds"}) == result.model_dump(exclude={"seconds"})
            return result, store.export_canonical()
    finally:
        engine.close()


def test_a_run_killed_at_any_episode_goes_on_to_the_same_content(tmp_path: Path) -> None:
    whole = Fragile()
    _, content = run(tmp_path / "whole", engine=whole)
    total = len(whole.played)
    assert total >= 20
    for kill_at in range(0, total, total // 3):
        folder = tmp_path / f"killed-{kill_at}"
        with pytest.raises(Killed):
            run(folder, engine=Fragile(dies_after=kill_at))
        second = Fragile()
        assert run(folder, engine=second)[1] == content
        assert len(second.played) == total - kill_at
    again = Fragile()
    assert run(tmp_path / "whole", engine=again)[1] == content
    assert again.played == []


def test_the_content_is_the_same_in_a_pool(tmp_path: Path) -> None:
    _, inline = run(tmp_path / "inline")
    _, pooled = run(tmp_path / "pool", engine=make_engine("pool", workers=2))
    assert pooled == inline


def test_another_configuration_is_refused(tmp_path: Path) -> None:
    run(tmp_path)
    with pytest.raises(ConfigChangedError, match="rollouts"):
        run(tmp_path, settings(**{**SMALL.model_dump(), "rollouts": 3}))


def test_what_the_machinery_lost_is_no_loss_and_is_played_again(tmp_path: Path) -> None:
    whole, _ = run(tmp_path / "whole")
    result, _ = run(tmp_path / "lossy", engine=Fragile(loses=1))
    assert result.invalid == len(result.tasks) + sum(case.status == "played" for case in result.cases)
    assert (result.baseline.asked, result.baseline.valid) == (4, 2)
    assert not result.complete
    for row in result.rows:
        assert row.played.valid * 2 == row.played.asked
        assert row.pairs.count == row.played.valid
    mended, _ = run(tmp_path / "lossy")
    same = {"seconds", "run_dir"}
    assert mended.model_dump(exclude=same) == whole.model_dump(exclude=same)


def test_stacks_that_can_be_won_are_saved_a_folder_a_variant(tmp_path: Path) -> None:
    result, _ = run(tmp_path)
    winnable = [case for case in result.cases if case.winnable]
    files = {path.relative_to(tmp_path / "stacks").as_posix() for path in (tmp_path / "stacks").rglob("*.json")}
    assert files == {f"{variant_folder(case.variant)}/{case.task}.json" for case in winnable}
    assert {case.status for case in result.cases if not case.winnable} == {"unsolvable"}
    for case in winnable:
        path = tmp_path / "stacks" / variant_folder(case.variant) / f"{case.task}.json"
        assert read_stack(path) == case.stack
        with load_stack(path) as env:
            env.reset(0)


def test_variants_whose_names_differ_in_signs_alone_have_folders_of_their_own() -> None:
    names = ["tools/combine.operation=*", "tools/combine.operation=+", "tools/combine.operation=/", "tools/combine"]
    assert len({variant_folder(name) for name in names}) == len(names)


def test_an_environment_that_cannot_be_put_back_is_refused(tmp_path: Path) -> None:
    halls = EnvironmentConfig(id="rigger.halls:Halls", options={"reversible": False})
    with pytest.raises(ConfigError, match="not reversible"):
        run(tmp_path, settings(environment=halls))


def test_toy24_leans_on_the_numbers_it_is_shown(tmp_path: Path) -> None:
    config = settings(
        environment=EnvironmentConfig(id="toy24"),
        tasks=["easy-0000", "medium-0010", "medium-0050"],
        policy=PolicySpec(id="solver", options={"forgets": 1.0}),
        rollouts=6,
        variants=["fields"],
        limits={"max_steps": 30},
    )
    result, _ = run(tmp_path, config)
    rows = {row.variant.id: row for row in result.rows}
    assert rows["fields/numbers left"].finding == "leans"
    untouched = rows["fields/steps left"]
    assert (untouched.finding, untouched.pairs.lost, untouched.pairs.gained) == ("unclear", 0, 0)
    assert result.worst == ("fields/numbers left", rows["fields/numbers left"].played.success_rate)
