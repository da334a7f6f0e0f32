"""The whole path on a real environment: Toy24 with its solver policy, on every backend, into the run database."""

from __future__ import annotations

from pathlib import Path

import pytest

from envharness.core.policy import PolicySpec
from envharness.core.seeding import derive_seed
from envharness.core.spec import StackSpec
from envharness.rollouts.engine import Backend, make_engine
from envharness.rollouts.episode import run_episode
from envharness.rollouts.job import RolloutJob
from envharness.store.database import RunStore

pytestmark = pytest.mark.slow

SOLVER = PolicySpec(id="solver", options={"shallow": 0.5})


def jobs() -> list[RolloutJob]:
    return [
        RolloutJob(
            task=task,
            stack=StackSpec.environment("toy24", task=task),
            policy=SOLVER,
            env_seed=derive_seed(1, "env", task),
            policy_seed=derive_seed(1, "policy", task, index),
            index=index,
        )
        for task in ("easy-0000", "medium-0000", "hard-0001")
        for index in range(6)
    ]


def run(folder: Path, backend: Backend, workers: int, stop_after: int | None = None) -> bytes:
    """Play what is missing in the run, stop after some, and return the run's content."""
    with (
        RunStore.open(folder, config={"seed": 1}, command="test") as store,
        make_engine(backend, workers=workers) as engine,
    ):
        missing = (job for job in jobs() if store.get_episode(job.key) is None)
        for played, (job, episode) in enumerate(engine.run(missing), 1):
            store.put_episode(job.key, "baseline", episode)
            if played == stop_after:
                break
        return store.export_canonical()


def test_the_content_of_a_run_depends_on_neither_backend_nor_workers_nor_interruptions(tmp_path: Path) -> None:
    reference = run(tmp_path / "inline", "inline", 1)
    assert reference.count(b'"kind":"success"') > 2
    assert reference.count(b'"kind":"failure"') > 2
    assert b'"kind":"invalid"' not in reference
    assert run(tmp_path / "one", "pool", 1) == reference
    assert run(tmp_path / "two", "pool", 2, stop_after=5) != reference
    assert run(tmp_path / "two", "inline", 1, stop_after=5) != reference
    assert run(tmp_path / "two", "pool", 2) == reference


@pytest.mark.parametrize("seed", range(3))
def test_one_seed_one_episode(seed: int) -> None:
    stack = StackSpec.environment("toy24", task="medium-0001")
    first, second = run_episode(stack, SOLVER, seed=seed), run_episode(stack, SOLVER, seed=seed)
    assert [step.action for step in first.steps] == [step.action for step in second.steps]
    assert first.valid
    assert first.outcome == second.outcome
    assert first.task == "medium-0001"


def test_a_hook_fault_is_a_component_fault_on_every_backend_and_leaves_the_engine_sound() -> None:
    faulty = (
        "class _Contract(Contract):\n    def filter_action(self, action, env_state):\n        raise ValueError('no')\n"
    )
    endless = "class _Contract(Contract):\n    def filter_action(self, action, env_state):\n        while True: pass\n"
    plain = jobs()[0]
    stacks = [plain.stack.wrap("contract", source=source) for source in (faulty, endless)]
    attacked = [plain.model_copy(update={"stack": stack}) for stack in stacks]
    backends: tuple[Backend, ...] = ("inline", "pool")
    for backend in backends:
        with make_engine(backend, workers=1) as engine:
            for attack in attacked:
                ((_, episode),) = engine.run([attack])
                assert (episode.outcome.reason, episode.attempt) == ("component_fault", 1), episode.outcome
                assert "filter_action" in episode.outcome.detail
            ((_, fine),) = engine.run([plain])
            assert fine.valid
