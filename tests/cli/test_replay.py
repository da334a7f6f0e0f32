from __future__ import annotations

import asyncio
import json
import sqlite3
from pathlib import Path
from typing import Any

import pytest

from envharness.cli.app import run as command
from envharness.core.errors import StoreError, UnknownIdError
from envharness.core.policy import PolicySpec
from envharness.core.spec import StackSpec
from envharness.core.trace import Episode
from envharness.rollouts.episode import play
from envharness.rollouts.job import Limits, RolloutJob
from envharness.store.database import RunStore
from envharness.store.schema import DATABASE_FILE

COUNTING = """
class _Contract(Contract):
    def filter_observation(self, observation, env_state):
        env_state.extras["seen"] = env_state.extras.get("seen", 0) + 1
        return Observation(text=f"{env_state.extras['seen']}: {observation.text}")
"""
STACKS = {
    "bare": StackSpec.environment("toy24", task="easy-0000"),
    "contract": StackSpec.environment("toy24", task="easy-0000").wrap("contract", source=COUNTING),
}


def job(stack: str, index: int, policy: str = "solver", **limits: int) -> RolloutJob:
    return RolloutJob(
        task="easy-0000",
        stack=STACKS[stack],
        policy=PolicySpec(id=policy),
        env_seed=2**63 + 1,
        policy_seed=index,
        index=index,
        limits=Limits.model_validate(limits),
    )


JOBS = {
    "bare": [job("bare", 0), job("bare", 1, max_steps=1)],
    "contract": [job("contract", 0), job("contract", 1, "random", max_steps=4)],
}


@pytest.fixture(scope="module")
def episodes() -> dict[str, Episode]:
    return {one.key: asyncio.run(play(one)) for jobs in JOBS.values() for one in jobs}


@pytest.fixture
def folder(tmp_path: Path, episodes: dict[str, Episode]) -> Path:
    with RunStore.open(tmp_path / "run", config={}, command="rig") as store:
        for phase, jobs in JOBS.items():
            for one in jobs:
                store.put_episode(one.key, phase, episodes[one.key], one.model_dump(mode="json"))
    return tmp_path / "run"


def changed(folder: Path, one: RolloutJob, episode: Episode, **changes: Any) -> None:
    """Write another episode in the place of a stored one."""
    with sqlite3.connect(folder / DATABASE_FILE) as connection:
        connection.execute("DELETE FROM episodes WHERE key = ?", (one.key,))
    with RunStore.open(folder, config={}, command="rig") as store:
        store.put_episode(one.key, "bare", episode.model_copy(update=changes))


def content(folder: Path) -> bytes:
    with RunStore.read(folder) as store:
        return store.export_canonical()


def output(capsys: pytest.CaptureFixture[str]) -> dict[str, Any]:
    return json.loads(capsys.readouterr().out.splitlines()[-1])


def test_what_was_kept_is_the_job_itself_and_its_common_part_is_kept_once(folder: Path) -> None:
    with RunStore.read(folder) as store:
        for jobs in JOBS.values():
            for one in jobs:
                assert RolloutJob.model_validate(store.get_job(one.key)) == one
    many = [job("bare", index) for index in range(20)]
    with RunStore.open(folder, config={}, command="rig") as store:
        for one in many:
            store.put_episode(one.key, "more", asyncio.run(play(many[0])), one.model_dump(mode="json"))
    with sqlite3.connect(folder / DATABASE_FILE) as connection:
        assert connection.execute("SELECT count(*) FROM jobs").fetchone()[0] == 23
        assert connection.execute("SELECT count(*) FROM job_parts").fetchone()[0] == 4


@pytest.mark.parametrize(("phase", "index"), [(phase, index) for phase in JOBS for index in (0, 1)])
def test_a_stored_episode_is_the_same_when_it_is_played_again(
    phase: str, index: int, folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert command(["replay", str(folder), "easy-0000", "--phase", phase, "--index", str(index)]) == 0
    assert "the same: " in capsys.readouterr().out
    for name in (JOBS[phase][index].key[:12], f"easy-0000/{phase}/{index}"):
        assert command(["replay", str(folder), name, "--json"]) == 0
        assert output(capsys) == {
            "key": JOBS[phase][index].key,
            "task": "easy-0000",
            "phase": phase,
            "index": index,
            "divergence": None,
        }


def test_an_episode_that_comes_out_otherwise_is_shown_with_the_place(
    folder: Path, episodes: dict[str, Episode], capsys: pytest.CaptureFixture[str]
) -> None:
    one = JOBS["bare"][0]
    steps = [step.model_copy(deep=True) for step in episodes[one.key].steps]
    steps[1].shown.text = "another [world]"
    changed(folder, one, episodes[one.key], steps=steps)
    assert command(["replay", str(folder), one.key]) == 1
    assert "it diverges at turn 1, shown.text" in (said := capsys.readouterr().out)
    assert '"another [world]"' in said


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["easy-0000"], "4 episodes fit, one is wanted: the first are "),
        (["nothing"], "0 episodes fit"),
        (["easy-0000", "--phase", "bare", "--index", "7"], "0 episodes fit"),
        (["easy-0000/bare/7"], "0 episodes fit"),
        (["easy-0000/bare"], "0 episodes fit"),
        (["easy-0000/bare/²"], "0 episodes fit"),
        (["/0"], "0 episodes fit"),
    ],
)
def test_what_names_no_single_episode_is_answered_with_those_there_are(
    arguments: list[str], message: str, folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert command(["replay", str(folder), *arguments]) == UnknownIdError.exit_code
    assert message in capsys.readouterr().err


@pytest.mark.parametrize(
    ("statement", "message", "code"),
    [
        ("DELETE FROM jobs", "was not kept", UnknownIdError.exit_code),
        ("UPDATE job_parts SET body = x'00'", "is damaged", StoreError.exit_code),
        ("UPDATE jobs SET own = '{}'", "is damaged", StoreError.exit_code),
        ("UPDATE jobs SET own = '['", "is damaged", StoreError.exit_code),
    ],
)
def test_a_job_that_is_missing_or_damaged_is_named(
    statement: str, message: str, code: int, folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    with sqlite3.connect(folder / DATABASE_FILE) as connection:
        connection.execute(statement)
    assert command(["replay", str(folder), JOBS["bare"][0].key]) == code
    assert message in " ".join(capsys.readouterr().err.split())


def test_an_environment_that_is_no_longer_there_is_named(
    folder: Path, episodes: dict[str, Episode], capsys: pytest.CaptureFixture[str]
) -> None:
    gone = JOBS["bare"][0].model_copy(update={"stack": StackSpec.environment("sold_world")})
    with RunStore.open(folder, config={}, command="rig") as store:
        store.put_episode(gone.key, "gone", episodes[JOBS["bare"][0].key], gone.model_dump(mode="json"))
    assert command(["replay", str(folder), gone.key]) != 0
    assert "sold_world" in capsys.readouterr().err


def test_task_and_phase_may_hold_slashes(folder: Path, episodes: dict[str, Episode]) -> None:
    one = job("bare", 9)
    episode = episodes[JOBS["bare"][0].key].model_copy(update={"task": "rooms/kitchen/3", "index": 9})
    with RunStore.open(folder, config={}, command="rig") as store:
        store.put_episode(one.key, "rig/template/round-1", episode, one.model_dump(mode="json"))
    assert command(["replay", str(folder), "rooms/kitchen/3/rig/template/round-1/9"]) == 0
