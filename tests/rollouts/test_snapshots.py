"""Forked snapshots: the same episodes with and without, whatever is in the stack and whatever goes wrong in it."""

from __future__ import annotations

import os
import signal
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from envharness.core.canonical import canonical_json
from envharness.core.policy import PolicySpec
from envharness.core.spec import StackSpec
from envharness.core.trace import Episode
from envharness.core.types import Action
from envharness.rollouts.engine import Backend, Engine, make_engine
from envharness.rollouts.job import RolloutJob
from envharness.rollouts.snapshots import snapshots as module
from envharness.rollouts.snapshots.snapshots import SnapshotMode, Snapshots
from envharness.rollouts.snapshots.staging import StagingError, StagingProcess
from envharness.rollouts.snapshots.worth import Resets
from envharness.store.content import episode_content
from rollouts.hostile import WIN, job, kitchen, script
from rollouts.processes import command_of, descendants, eventually

pytestmark = pytest.mark.slow

COUNTING = """
class _Contract(Contract):
    def filter_action(self, action, env_state):
        extras = env_state.extras
        extras["calls"] = extras.get("calls", 0) + 1
        if extras["calls"] == 2:
            return Blocked(reason=f"call {extras['calls']}")
        return action
    def filter_observation(self, observation, env_state):
        return Observation(text=observation.text.upper(), data=observation.data)
"""
FORWARD = {"name": "forward"}
TOY24 = StackSpec.environment("toy24", task="medium-0000")
CORRIDOR = StackSpec.environment("environments:Corridor", length=5)
STAGED = CORRIDOR.wrap("stage", actions=[FORWARD])


def chain(*segments: StackSpec, **state: Any) -> StackSpec:
    nodes = [segment.stack.model_dump(mode="json") for segment in segments]
    stack = {"kind": "chained", "component": "chain", "state": state, "segments": nodes}
    return StackSpec.from_data({"schema_version": 2, "stack": stack})


def fingerprinted(stack: StackSpec) -> StackSpec:
    """The stack with the fingerprints of the seed that jobs have."""
    with stack.build() as env:
        env.reset(job().env_seed)
        return env.spec


WALK = script([FORWARD, {"name": "back"}, {"name": "sideways"}, {"name": "back"}, *[FORWARD] * 12])
SOLVER = PolicySpec(id="solver")
STACKS: dict[str, tuple[StackSpec, PolicySpec, int]] = {
    "toy24": (TOY24, SOLVER, 1),
    "a stage that does nothing on toy24": (TOY24.wrap("stage", actions=[]), SOLVER, 1),
    "a contract on toy24": (TOY24.wrap("contract", source=COUNTING), SOLVER, 1),
    "dense reward": (CORRIDOR, WALK, 1),
    "stage": (STAGED, WALK, 1),
    "stage on stage": (STAGED.wrap("stage", actions=[FORWARD]), WALK, 1),
    "contract on stage": (STAGED.wrap("contract", source=COUNTING), WALK, 1),
    "stage on contract": (CORRIDOR.wrap("contract", source=COUNTING).wrap("stage", actions=[FORWARD]), WALK, 1),
    "contract on stage on contract": (
        CORRIDOR.wrap("contract", source=COUNTING)
        .wrap("stage", actions=[FORWARD])
        .wrap("contract", source=COUNTING.replace("== 2", "== 3")),
        WALK,
        1,
    ),
    "chain": (chain(STAGED, TOY24), WALK, 2),
    "contract on a chain of contracts": (
        chain(STAGED.wrap("contract", source=COUNTING), STAGED).wrap("contract", source=COUNTING),
        WALK,
        2,
    ),
    "a stage on a chain": (chain(STAGED, CORRIDOR).wrap("stage", actions=[FORWARD] * 5), WALK, 2),
    "a true fingerprint": (fingerprinted(STAGED), WALK, 1),
}
FAULTS: dict[str, StackSpec] = {
    **{f"{how} in step": kitchen(how=how) for how in ("raise", "hook fault", "replay error", "zygote", "timeout")},
    **{f"{how} in step": kitchen(how=how) for how in ("stop iteration", "sys.exit", "none", "nan", "object", "print")},
    **{f"raise in {when}": kitchen(how="raise", when=when) for when in ("reset", "state", "evaluate", "close")},
    "surrogate": kitchen(how="surrogate"),
    "an action that is edited": kitchen(how="edits action"),
    "a stage that is refused": CORRIDOR.wrap("stage", actions=[FORWARD, {"name": "sideways"}]),
    "a stage without effect": CORRIDOR.wrap("stage", actions=[{"name": "back"}]),
    "a stage that wins": CORRIDOR.wrap("stage", actions=[FORWARD] * 5),
    "a false fingerprint": CORRIDOR.wrap("stage", actions=[FORWARD], fingerprints={"3": ["0" * 16]}),
    "a fault of the contract": STAGED.wrap("contract", source=COUNTING.replace("text.upper()", "text.missing()")),
}


@pytest.fixture(autouse=True)
def no_process_left() -> Iterator[None]:
    before = descendants(os.getpid())
    yield

    def left() -> set[int]:
        return {pid for pid in descendants(os.getpid()) - before if "sandbox.zygote" not in command_of(pid)}

    assert eventually(lambda: not left()), [command_of(pid) for pid in left()]


@pytest.fixture
def forks(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """The process ids of all children forked from here on."""
    children: list[int] = []
    fork = StagingProcess.fork

    def noted(process: StagingProcess) -> Any:
        channel, child = fork(process)
        children.append(child)
        return channel, child

    monkeypatch.setattr(StagingProcess, "fork", noted)
    return children


def play(
    mode: SnapshotMode, stack: StackSpec, policy: PolicySpec, rollouts: int = 2, backend: Backend = "inline"
) -> list[Episode]:
    with make_engine(backend, workers=1, retries=0, snapshots=mode) as engine:
        return play_on(engine, [job(stack, policy, index) for index in range(rollouts)])


def play_on(engine: Engine, jobs: list[RolloutJob]) -> list[Episode]:
    return sorted((episode for _, episode in engine.run(jobs)), key=lambda episode: episode.index)


def contents(episodes: list[Episode]) -> list[str]:
    return [canonical_json(episode_content(episode.model_dump(mode="json"))) for episode in episodes]


@pytest.mark.parametrize("name", STACKS)
def test_episodes_are_the_same_to_the_byte(name: str, forks: list[int]) -> None:
    stack, policy, segments = STACKS[name]
    expected = play("never", stack, policy)
    assert not forks
    assert all(episode.valid for episode in expected), [episode.outcome for episode in expected]
    assert contents(play("always", stack, policy)) == contents(expected)
    assert len(forks) == 2 * segments
    assert not any(episode.notes for episode in expected)


@pytest.mark.parametrize("name", FAULTS)
def test_faults_are_the_same_to_the_byte(name: str) -> None:
    stack = FAULTS[name]
    policy = WALK if stack.to_json().count(b"Corridor") else script()
    assert contents(play("always", stack, policy)) == contents(play("never", stack, policy))


def test_the_faults_are_faults() -> None:
    invalid = {name for name, stack in FAULTS.items() if not play("never", stack, script(), 1)[0].valid}
    assert set(FAULTS) - invalid == {"print in step", "raise in close", "an action that is edited"}


def test_a_pool_worker_forks_too() -> None:
    stack, policy, _ = STACKS["contract on stage"]
    assert contents(play("always", stack, policy, 3, "pool")) == contents(play("never", stack, policy, 3))


def test_a_stage_is_replayed_once_for_all_rollouts(tmp_path: Path) -> None:
    # A second reset in any process would find the file there, and not raise as the first one does.
    once = tmp_path / "once"
    stack = kitchen(how="raise", when="reset", once=str(once)).wrap("stage", actions=[WIN[0]])
    once.touch()
    episodes = play("always", stack, script(WIN[1:]), 3)
    assert [episode.outcome.kind for episode in episodes] == ["success"] * 3
    assert [len(episode.start.replayed) for episode in episodes if episode.start] == [1] * 3


@pytest.mark.parametrize("how", ["exit", "kill"])
def test_a_child_that_dies_costs_an_attempt_and_is_not_forked_again(how: str, tmp_path: Path, forks: list[int]) -> None:
    stack = kitchen(how=how, once=str(tmp_path / "once"))
    with make_engine("inline", retries=1, snapshots="always") as engine:
        (episode,) = play_on(engine, [job(stack)])
        assert episode.success
        assert episode.attempt == 2
        assert len(forks) == 1
    with make_engine("inline", retries=0, snapshots="always") as engine:
        (tmp_path / "once").unlink()
        (episode,) = play_on(engine, [job(stack)])
    assert (episode.outcome.kind, episode.outcome.reason) == ("invalid", "environment_error")
    words = {"exit": "ended with exit status 41 in step", "kill": "ended by SIGKILL in step"}
    assert words[how] in episode.outcome.detail


def staging_processes() -> list[int]:
    return [pid for pid in descendants(os.getpid()) if "snapshots.staging_process" in command_of(pid)]


def test_a_staging_process_that_dies_is_noted_and_nothing_is_lost(forks: list[int]) -> None:
    with make_engine("inline", retries=0, snapshots="always") as engine:
        assert play_on(engine, [job()])[0].notes == []
        # A fork that has not ended yet looks like the process it came from.
        assert eventually(lambda: len(staging_processes()) == 1)
        (staging,) = staging_processes()
        os.kill(staging, signal.SIGKILL)
        assert eventually(lambda: not command_of(staging))
        after, later = play_on(engine, [job(index=1), job(index=2)])
    assert after.success
    assert after.notes == ["reset without a snapshot: the staging process ended by SIGKILL"]
    assert later.success
    assert later.notes == []
    assert len(forks) == 1


def test_a_staging_process_that_cannot_start_is_noted_with_its_last_words(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("envharness.rollouts.snapshots.staging._BOOT", "raise SystemExit('no room')")
    first, second = play("always", kitchen(), script())
    assert first.success
    assert first.notes == ["reset without a snapshot: the staging process ended with exit status 1: no room"]
    assert second.notes == []


def test_a_second_reset_is_done_by_the_child() -> None:
    seen: dict[str, list[str]] = {}
    for mode in ("always", "never"):
        with _snapshots(mode) as snapshots, snapshots.build(STAGED, pytest.fail) as env:
            starts = [env.reset(3), env.reset(4), env.reset(4, {"max_steps": 2})]
            ends = [env.step(Action(name="back")), env.reset(3)]
            seen[mode] = [response.model_dump_json() for response in (*starts, *ends)]
            seen[mode] += [repr(env.get_env_state()), repr(env.save_state()), repr(env.tool_schemas())]
    assert seen["always"] == seen["never"]


def test_processes_and_children_are_bounded(monkeypatch: pytest.MonkeyPatch, forks: list[int]) -> None:
    monkeypatch.setattr(module, "MAX_STAGING_PROCESSES", 2)
    monkeypatch.setattr(module, "MAX_CHILDREN", 2)
    stacks = [StackSpec.environment("environments:Corridor", length=length) for length in (2, 3, 4)]
    with _snapshots("always") as snapshots:
        held = [snapshots.build(stack, pytest.fail) for stack in stacks]
        for env in held:  # two busy ones, and no room for the third
            env.reset(0)
        assert len(forks) == 2
        held[0].close()
        with snapshots.build(stacks[2], pytest.fail) as third:  # the first is idle now, and makes room
            third.reset(0)
            assert len(forks) == 3
            with snapshots.build(stacks[1], pytest.fail) as fourth:
                fourth.reset(0)
        assert len(forks) == 3
        assert len(_stagings()) == 2
        for env in held:
            env.close()


def test_short_memory_falls_back(monkeypatch: pytest.MonkeyPatch, forks: list[int]) -> None:
    monkeypatch.setattr(module, "FREE_BYTES", 1 << 60)
    episodes = play("always", kitchen(), script())
    assert [(episode.success, episode.notes) for episode in episodes] == [(True, [])] * 2
    assert not forks


def test_what_is_not_fork_safe_is_left_alone(forks: list[int]) -> None:
    with _snapshots("always") as snapshots:
        env = snapshots.build(StackSpec.environment("environments:Ladder"), pytest.fail)
        assert type(env).__name__ == "Ladder"
        env.close()


def test_an_environment_with_threads_is_not_forked(forks: list[int]) -> None:
    first, second = play("always", StackSpec.environment("rollouts.threaded:Threaded"), script())
    assert first.success
    assert first.notes == ["reset without a snapshot: the environment started 1 threads, so it cannot be forked safely"]
    assert second.notes == []
    assert not forks


def test_auto_forks_what_has_proved_slow_and_nothing_else(monkeypatch: pytest.MonkeyPatch, forks: list[int]) -> None:
    monkeypatch.setattr("envharness.rollouts.snapshots.worth.START_SECONDS", 0.2)
    slow = StackSpec.environment("rollouts.threaded:Slow", seconds=0.1)
    with make_engine("inline", retries=0, snapshots="auto") as engine:
        episodes = play_on(engine, [job(slow, index=index) for index in range(60)])
        forked = len(forks)
        play_on(engine, [job(index=index) for index in range(20)])
    assert 0 < forked < 56
    assert len(forks) == forked
    assert len(set(contents([episode.model_copy(update={"index": 0, "seed": 0}) for episode in episodes]))) == 1


def test_staging_pays_once_as_much_was_lost_as_it_costs() -> None:
    cached = Resets(first=1.5)
    for _ in range(1000):
        cached.add(0.001)
    assert not cached.worth_staging
    slow = Resets(first=1.5)
    uses = 0
    while not slow.worth_staging:
        slow.add(1.5)
        uses += 1
    assert uses == 2


def test_a_child_has_a_worker_s_environment_and_one_thread(monkeypatch: pytest.MonkeyPatch, forks: list[int]) -> None:
    monkeypatch.setenv("SEEN_BY_WORKERS", "yes")
    with _snapshots("always") as snapshots, snapshots.build(kitchen(), pytest.fail) as env:
        env.reset(0)
        env.observe()
        (child,) = forks
        variables = Path(f"/proc/{child}/environ").read_bytes().split(b"\0")
        assert b"SEEN_BY_WORKERS=yes" in variables
        assert b"PYTHONHASHSEED=0" in variables
        assert [entry.name for entry in Path(f"/proc/{child}/task").iterdir()] == [str(child)]
        sockets = [str(entry.readlink()) for entry in Path(f"/proc/{child}/fd").iterdir() if entry.exists()]
        assert sum("socket:" in link for link in sockets) == 1


def test_staging_stops_waiting_for_an_answer(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("envharness.rollouts.snapshots.staging.ANSWER_SECONDS", 0.5)
    with _snapshots("always") as snapshots, snapshots.build(kitchen(), pytest.fail) as env:
        env.reset(0)
        (staging,) = _stagings()
        os.kill(staging, signal.SIGSTOP)
        (process,) = snapshots._processes.values()
        with pytest.raises(StagingError, match="ended by SIGKILL"):
            process.fork()


def _stagings() -> set[int]:
    """The staging processes below this one, without their children."""
    return {pid for pid in _children(os.getpid()) if "snapshots.staging_process" in command_of(pid)}


def _children(pid: int) -> set[int]:
    return descendants(pid) - {grandchild for child in descendants(pid) for grandchild in descendants(child)}


class _snapshots:  # noqa: N801  used as a function
    """Snapshots that are closed at the end of the block."""

    def __init__(self, mode: SnapshotMode) -> None:
        self.snapshots = Snapshots(mode)

    def __enter__(self) -> Snapshots:
        return self.snapshots

    def __exit__(self, *_: object) -> None:
        self.snapshots.close()
