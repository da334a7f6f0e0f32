"""Environments whose resets do not lead to one start are refused before anything is paid for."""

from __future__ import annotations

import itertools
from pathlib import Path
from typing import Any, ClassVar

import pytest

from envharness.core.errors import ConfigError
from envharness.core.trace import Episode
from envharness.core.types import Action, Capabilities, EnvResponse, JsonDict, ResetResponse
from envharness.rigger.config import EnvironmentConfig, RigConfig
from envharness.rigger.loop import rig
from envharness.rigger.observe import view_task
from envharness.rigger.resets import PHASE, fidelity_jobs, require_faithful_resets, unfaithful
from envharness.rigger.stacks import base_stacks
from envharness.rollouts.engine import make_engine
from envharness.store.database import RunStore
from rigger.build import config
from rigger.halls import Halls, go

_NUMBERS = itertools.count()


class Told(Halls):
    """Halls with one thing in the state that a subclass decides."""

    mark: str = ""

    def get_env_state(self) -> JsonDict:
        return {**super().get_env_state(), "mark": self.mark}

    def env_state_schema(self) -> str:
        return f"{super().env_state_schema()}\nmark: str - on the wall"


class DrawnAnew(Told):
    def __init__(self, task: str = "hall-0", **options: Any) -> None:
        super().__init__(task, **options)
        self.mark = str(next(_NUMBERS))


class ScratchedByResets(Told):
    def _start(self, seed: int | None, options: JsonDict) -> ResetResponse:
        self.mark += "/"
        return super()._start(seed, options)


class ScratchedByPlay(Told):
    """Only an episode leaves a mark, and only in the process, where the next environment finds it."""

    walls: ClassVar[list[str]] = []

    def _start(self, seed: int | None, options: JsonDict) -> ResetResponse:
        self.mark = "".join(self.walls)
        return super()._start(seed, options)

    def do(self, text: str) -> EnvResponse:
        self.walls.append("/")
        return super().do(text)


class DiceInStep(Told):
    def do(self, text: str) -> EnvResponse:
        self.mark = str(next(_NUMBERS))
        return super().do(text)

    def _start(self, seed: int | None, options: JsonDict) -> ResetResponse:
        self.mark = ""
        return super()._start(seed, options)


class Clocked(DrawnAnew):
    @property
    def capabilities(self) -> Capabilities:
        return super().capabilities.model_copy(update={"volatile_state_keys": ("mark",)})


class Honest(DrawnAnew):
    @property
    def capabilities(self) -> Capabilities:
        return super().capabilities.model_copy(update={"reversible": False})


def settings(world: type[Halls], **fields: Any) -> RigConfig:
    return config(environment=EnvironmentConfig(id=f"rigger.test_resets:{world.__name__}"), **fields)


def asked(folder: Path, chosen: RigConfig) -> list[Episode]:
    """The episodes that are kept of the question."""
    view = view_task("hall-0", base_stacks(chosen, ["hall-0"])["hall-0"])
    with RunStore.open(folder, config={}, command="rig") as store, make_engine() as engine:
        try:
            require_faithful_resets(view, chosen, store, engine)
        finally:
            kept = [episode for _, _, episode in store.episodes(phase=PHASE)]
            assert len(kept) == sum(count.episodes for count in store.phase_counts())
        return kept


@pytest.mark.parametrize(
    ("world", "words"),
    [
        (DrawnAnew, r"two environments with the same seed start differently: the state's 'mark' was '\d+' and then"),
        (ScratchedByResets, "a second reset with the same seed does not give the start of the first: .*'/' and then"),
        (ScratchedByPlay, "a second reset with the same seed does not give the start of the first: .*'' and then '/"),
        (DiceInStep, "two environments with the same seed differ after 1 turn of the same actions: the state's 'mark'"),
    ],
)
def test_an_unfaithful_environment_is_refused_and_the_line_says_why(
    world: type[Halls], words: str, tmp_path: Path
) -> None:
    with pytest.raises(ConfigError, match=words) as refusal:
        asked(tmp_path, settings(world))
    assert "insist_unfaithful: true" in str(refusal.value)
    assert "\n" not in str(refusal.value)


def test_a_run_is_refused_before_a_rollout_and_binds_its_folder_to_nothing(tmp_path: Path) -> None:
    chosen = settings(DrawnAnew)
    with RunStore.open(tmp_path, config={}, command="rig") as store, make_engine() as engine:
        with pytest.raises(ConfigError, match="start differently"):
            rig(chosen, store=store, engine=engine)
        assert store.phase_counts() == []
        store.forget_empty()
    with RunStore.open(tmp_path, config={"another": 1}, command="rig") as store:
        assert store.config == {"another": 1}


@pytest.mark.parametrize("world", [Halls, Clocked])
def test_a_faithful_one_is_asked_once_a_run(
    world: type[Halls], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    first = asked(tmp_path, settings(world))
    assert [(episode.index, episode.success, len(episode.steps)) for episode in first] == [(0, True, 5), (1, True, 5)]
    monkeypatch.setattr("envharness.rigger.resets._played", None)
    assert asked(tmp_path, settings(world)) == first


@pytest.mark.parametrize(
    ("world", "fields"), [(DrawnAnew, {"insist_unfaithful": True}), (Honest, {"insist_irreversible": True})]
)
def test_who_insists_is_not_asked(world: type[Halls], fields: dict[str, Any], tmp_path: Path) -> None:
    assert asked(tmp_path, settings(world, **fields)) == []


def test_episodes_that_fail_leave_the_question_open(tmp_path: Path) -> None:
    broken = EnvironmentConfig(id="rigger.halls:Halls", options={"fails": True})
    assert [episode.outcome.reason for episode in asked(tmp_path, config(environment=broken))] == [
        "environment_error"
    ] * 2


def test_without_a_reference_random_actions_are_played(tmp_path: Path) -> None:
    unknown = EnvironmentConfig(id="rigger.halls:Halls", options={"reference": False})
    assert [len(episode.steps) for episode in asked(tmp_path, config(environment=unknown))] == [12, 12]


def test_plays_of_another_length_differ() -> None:
    view = view_task("hall-0", base_stacks(config(), ["hall-0"])["hall-0"])
    with make_engine() as engine:
        one, other = (episode for _, episode in engine.run(fidelity_jobs(view, config())))
    assert unfaithful(one, other, ()) == ""
    shorter: Episode = other.model_copy(update={"steps": other.steps[:3]})
    assert "one ends after 3 turns" in unfaithful(one, shorter, ())


def test_the_reference_is_played_to_the_end_and_begun_again() -> None:
    view = view_task("hall-0", base_stacks(config(), ["hall-0"])["hall-0"])
    with make_engine() as engine:
        [(_, episode)] = engine.run(fidelity_jobs(view, config())[:1])
    assert episode.success
    assert episode.start is not None
    assert [exchange.action for exchange in episode.start.replayed] == [*[go("walk on")] * 4, go("rest")]
    assert isinstance(episode.steps[0].action, Action)


def test_the_question_says_nothing_about_whether_anybody_answers_the_policy(tmp_path: Path) -> None:
    asked(tmp_path, settings(Halls))
    with RunStore.read(tmp_path) as store:
        assert store.has_valid()
        assert not store.has_valid(besides=PHASE)
