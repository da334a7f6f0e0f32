"""Whole comparisons on a real world: paired, resumable, extendable, and honest about what was played."""

from __future__ import annotations

from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from envharness.campaign.cells import SHARED_PHASES, CellRunner
from envharness.campaign.compare import Comparison, compare
from envharness.campaign.comparison import CompareConfig
from envharness.core.errors import ConfigChangedError, EnvHarnessError
from envharness.core.trace import Episode
from envharness.llm.chat import ChatClient, ChatRequest
from envharness.llm.config import ModelConfig
from envharness.rollouts.engine import Engine, make_engine
from envharness.rollouts.job import RolloutJob
from envharness.store.database import RunStore
from rigger.author import MODEL, Answer, Author, well_written
from rigger.build import config

pytestmark = pytest.mark.slow


class Killed(BaseException):
    """Stands for a SIGKILL: nothing may catch it."""


class Counting:
    """Makes inline engines that note what they play, and die after so many rollouts."""

    def __init__(self, *, dies_after: int | None = None, breaks: bool = False) -> None:
        self.played: list[str] = []
        self._dies_after = dies_after
        self._breaks = breaks

    @contextmanager
    def engine(self) -> Generator[Engine]:
        with make_engine() as inner:
            ask = inner.next_result

            def next_result(timeout: float | None = None) -> tuple[RolloutJob, Episode] | None:
                if self._dies_after is not None and len(self.played) >= self._dies_after:
                    raise Killed
                found = ask(timeout)
                if found is None:
                    return None
                job, episode = found
                self.played.append(job.key)
                if self._breaks:
                    lost = episode.outcome.model_copy(update={"kind": "invalid", "reason": "worker_died"})
                    episode = episode.model_copy(update={"outcome": lost, "evaluation": None})
                return job, episode

            inner.next_result = next_result
            yield inner


def settings(**fields: Any) -> CompareConfig:
    shared = {"tasks": ["hall-0", "hall-1"], "rounds": 2, "rollouts": 4, "remeasure": 3, **fields.pop("base", {})}
    base = config(**shared)
    fields = {"designers": ["template", "random", "identity"], "seeds": [1, 2], "resamples": 100, **fields}
    return CompareConfig.model_validate({"base": base.model_dump(), **fields})


def run(folder: Path, how: CompareConfig, counting: Counting | None = None, **fields: Any) -> Comparison:
    return compare(how, CellRunner(folder, (counting or Counting()).engine, **fields))


def timeless(comparison: Comparison) -> Comparison:
    return comparison.model_copy(update={"run_dir": ""})


@pytest.fixture(scope="module")
def whole(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Comparison, list[str]]:
    """A comparison of three designers and two seeds, and what was played for it."""
    folder, counting = tmp_path_factory.mktemp("comparison"), Counting()
    return folder, run(folder, settings(), counting), counting.played


Whole = tuple[Path, Comparison, list[str]]


def test_designers_start_from_the_same_rollouts_which_are_played_once(whole: Whole) -> None:
    folder, found, played = whole
    bases: dict[int, list[list[tuple[str, Episode]]]] = {1: [], 2: []}
    for seed, cells in bases.items():
        for designer in ("template", "random", "identity"):
            with RunStore.read(folder / "cells" / "rigger.halls__Walker" / f"seed-{seed}" / designer) as store:
                shared = [(key, e) for phase in SHARED_PHASES for key, _, e in store.episodes(phase=phase)]
                assert all(store.get_job(key) for key, _ in shared)
                cells.append(shared)
    for same in bases.values():
        assert len(same[0]) == 2 + 2 * (4 + 3)
        assert same[0] == same[1] == same[2]
    assert bases[1][0] != bases[2][0]
    assert len(set(played)) == len(played)
    # Free probes are played, too, and are not rollouts.
    assert found.played <= len(played)
    charged = sum(entry.rollouts for entry in found.figures)
    assert charged >= 3 * 2 * 2 * 4, "every designer is charged its baselines"
    assert found.budget == 12


def test_the_figures_are_those_of_the_cells(whole: Whole) -> None:
    folder, found, _ = whole
    assert [entry.designer for entry in found.figures] == ["template", "random", "identity"]
    for entry in found.figures:
        assert entry.measures["accepted"].value == entry.accepted / 4
        assert entry.measures["rollouts"].value == entry.rollouts / 4
        assert entry.curve[-1].budget == 12
        assert entry.curve[-1].counted == entry.measures["in_band_counted"]
    assert {entry.designer for entry in found.differences} == {"template", "identity"}
    assert {entry.reference for entry in found.differences} == {"random"}
    for name in ("template", "random"):
        assert (folder / "cells" / "rigger.halls__Walker" / "seed-1" / name / "report.html").exists()


def test_a_comparison_killed_in_any_cell_goes_on_to_the_same_figures(tmp_path: Path) -> None:
    how = settings(seeds=[1], designers=["random", "identity"], base={"tasks": ["hall-1"]})
    undisturbed = Counting()
    reference = run(tmp_path / "whole", how, undisturbed)
    total = len(undisturbed.played)
    for kill_at in (0, 2, total // 2, total - 2):
        folder = tmp_path / f"killed-{kill_at}"
        with pytest.raises(Killed):
            run(folder, how, Counting(dies_after=kill_at))
        second = Counting()
        assert timeless(run(folder, how, second)) == timeless(reference)
        assert len(second.played) == total - kill_at


def test_a_finished_comparison_plays_nothing_and_takes_further_designers_and_seeds(
    tmp_path: Path, whole: Whole
) -> None:
    small = settings(designers=["template", "random"], seeds=[1])
    first = run(tmp_path, small)
    again = Counting()
    assert run(tmp_path, small, again) == first
    assert again.played == []
    larger = run(tmp_path, settings(), again)
    assert timeless(larger) == timeless(whole[1])
    assert larger.figures[0].accepted >= first.figures[0].accepted


def test_a_designer_put_before_the_others_starts_from_their_rollouts(tmp_path: Path) -> None:
    """Played anew, a live model's baseline would differ, and nothing would be paired."""
    how = {"seeds": [1], "base": {"tasks": ["hall-1"]}}
    run(tmp_path, settings(designers=["random", "identity"], **how))
    later = Counting()
    run(tmp_path, settings(designers=["template", "random", "identity"], **how), later)
    with RunStore.read(tmp_path / "cells" / "rigger.halls__Walker" / "seed-1" / "template") as store:
        shared = {key for phase in SHARED_PHASES for key, _, _ in store.episodes(phase=phase)}
    assert len(shared) == 2 + 4 + 3
    assert not shared & set(later.played)


def test_a_comparison_of_something_else_is_refused(whole: Whole) -> None:
    with pytest.raises(ConfigChangedError, match="band"):
        run(whole[0], settings(base={"band": (0.3, 0.7)}))


def test_what_the_machinery_lost_is_said_and_mended_by_the_same_command(tmp_path: Path) -> None:
    how = settings(seeds=[1], designers=["random", "identity"])
    broken = run(tmp_path, how, Counting(breaks=True))
    assert [entry.invalid for entry in broken.figures] == [2, 2]
    assert [entry.measures["in_band_counted"].value for entry in broken.figures] == [0.0, 0.0]
    mended = run(tmp_path, how)
    assert [entry.invalid for entry in mended.figures] == [0, 0]
    assert timeless(mended) == timeless(run(tmp_path / "undisturbed", how))


def test_strong_and_weak_designers_are_crossed_with_strong_and_weak_policies(tmp_path: Path) -> None:
    """A designer model that writes well, and one that writes nonsense, on a policy that gives up and one that does not."""

    def make_client(model: ModelConfig) -> ChatClient:
        def write(request: ChatRequest) -> Answer:
            return well_written(request) if model.model == "strong" else "I have no idea."

        return Author(write)

    def designer(name: str) -> dict[str, Any]:
        return {"id": "llm", "name": name, "options": {"model": {**MODEL, "model": name}}}

    walker = {"id": "rigger.halls:Walker"}
    policies = [{**walker, "name": "gives-up"}, {**walker, "name": "steady", "options": {"gives_up": 0.0}}]
    how = settings(
        designers=[designer("strong"), designer("weak"), "random"],
        policies=policies,
        seeds=[1],
        reference="weak",
    )
    found = run(tmp_path, how, make_client=make_client)
    accepted = {(entry.designer, entry.policy): entry.accepted for entry in found.figures}
    assert len(accepted) == 6
    assert accepted["strong", "gives-up"] > 0
    # What it writes hinders only who gives up.
    assert accepted["strong", "steady"] == accepted["weak", "gives-up"] == accepted["weak", "steady"] == 0
    asked = {(entry.designer, entry.policy): entry.usage for entry in found.figures}
    assert asked["strong", "gives-up"]["designer"].calls > 0
    assert asked["random", "steady"] == {}
    pairs = {(entry.policy, entry.designer) for entry in found.differences}
    assert pairs == {(policy, name) for policy in ("gives-up", "steady") for name in ("strong", "random")}


@pytest.mark.parametrize(
    ("fields", "words"),
    [
        ({"base": {"tasks": ["hall-9"]}}, "no task 'hall-9'"),
        ({"designers": ["random", "tempalte"]}, "unknown designer 'tempalte'"),
        ({"designers": ["random", {"id": "template", "options": {"only": ["mirror"]}}]}, "no template 'mirror'"),
        ({"policies": ["slover"]}, "unknown policy 'slover'"),
    ],
)
def test_what_cannot_run_is_said_before_a_rollout(tmp_path: Path, fields: dict[str, Any], words: str) -> None:
    counting = Counting()
    with pytest.raises(EnvHarnessError, match=words):
        run(tmp_path, settings(**fields), counting)
    assert counting.played == []
