"""A rigging run of many stored episodes, built fast: what a run costs when its database is large.

The run is what `envharness rig` would have written for all 300 tasks of Toy24: the plans are the real ones, and so are
the keys, phases, candidates, free checks and records. Only the episodes are not played: each is a copy of one that was,
won or lost as its key's digits say. They are written in few large transactions, which nothing but this benchmark does.
"""

from __future__ import annotations

import sqlite3
from collections import deque
from collections.abc import Generator
from contextlib import closing, contextmanager
from pathlib import Path

from envharness.core.policy import PolicySpec
from envharness.core.spec import StackSpec
from envharness.core.trace import Episode
from envharness.rigger.config import DesignerConfig, EnvironmentConfig, RigConfig, TaskSelection
from envharness.rigger.loop import rig
from envharness.rigger.results import RESULT
from envharness.rollouts.engine import Engine, make_engine
from envharness.rollouts.job import Limits, RolloutJob
from envharness.store.database import RunStore
from envharness.store.schema import DATABASE_FILE

TASKS = 300
SAMPLES = 12


def large_config(remeasure: int) -> RigConfig:
    """Return a run of all tasks; about `TASKS * (2 * remeasure + 60)` episodes."""
    return RigConfig(
        environment=EnvironmentConfig(id="toy24"),
        tasks=TaskSelection(count=TASKS),
        policy=PolicySpec(id="solver"),
        designer=DesignerConfig(id="template"),
        limits=Limits(max_steps=30),
        remeasure=remeasure,
        scaffold_from_reference=True,
    )


class CopyingEngine(Engine):
    """Answers each job at once with a copy of an episode that was really played; counts how many it was asked for."""

    def __init__(self) -> None:
        self.asked = 0
        self._done: deque[tuple[RolloutJob, Episode]] = deque()
        self._won, self._lost = _samples()

    def submit(self, job: RolloutJob) -> None:
        """Copy one."""
        self.asked += 1
        digits = int(job.key[:8], 16)
        probe = job.policy.id != "solver"
        # A probe is the policy that does nothing, and fails, or a known win, which still wins.
        won = bool(job.policy.options.get("actions")) if probe else digits % 100 < 70
        chosen = (self._won if won else self._lost)[digits % (SAMPLES // 2)]
        facts = {"task": job.task, "index": job.index, "seed": job.policy_seed}
        self._done.append((job, chosen.model_copy(update=facts)))

    def next_result(self, timeout: float | None = None) -> tuple[RolloutJob, Episode] | None:
        """Hand out the oldest."""
        del timeout
        return self._done.popleft() if self._done else None

    @property
    def in_flight(self) -> int:
        """Copies made and not handed out."""
        return len(self._done)

    @property
    def capacity(self) -> int:
        """Room for as many as anybody submits."""
        return 1_000_000

    def cancel(self) -> None:
        """Drop them."""
        self._done.clear()

    def close(self) -> None:
        """Nothing to end."""


def build(folder: Path, remeasure: int) -> int:
    """Write the run into `folder` and return how many episodes it has."""
    config = large_config(remeasure)
    engine = CopyingEngine()
    with RunStore.open(folder, config=config.model_dump(mode="json"), command="rig") as store:
        with _few_transactions(store):
            rig(config, store=store, engine=engine)
        return len(store.episode_keys())


def resume_run(folder: Path, remeasure: int) -> int:
    """Give the command again, as a user would, up to the summary; return how many rollouts it asked for."""
    config = large_config(remeasure)
    engine = CopyingEngine()
    with RunStore.open(folder, config=config.model_dump(mode="json"), command="rig") as store:
        rig(config, store=store, engine=engine)
    return engine.asked


def forget_results(folder: Path, tasks: int) -> None:
    """Take back the decisions about the last tasks: as if the run had been killed just before it made them."""
    with closing(sqlite3.connect(folder / DATABASE_FILE)) as database, database:
        keys = [key for (key,) in database.execute("SELECT key FROM records WHERE kind = ? ORDER BY key", (RESULT,))]
        names = sorted({key.partition("/")[2] for key in keys})[-tasks:]
        gone = [(RESULT, key) for key in keys if key.partition("/")[2] in names]
        database.executemany("DELETE FROM records WHERE kind = ? AND key = ?", gone)


@contextmanager
def _few_transactions(store: RunStore) -> Generator[None]:
    """Put everything written inside into one transaction."""
    connection = store._connection  # noqa: SLF001  # pyright: ignore[reportPrivateUsage]  not offered to anybody else
    single = store._transaction  # noqa: SLF001  # pyright: ignore[reportPrivateUsage]

    @contextmanager
    def joined(*, sync: bool = True) -> Generator[None]:
        del sync
        yield

    connection.execute("BEGIN IMMEDIATE")
    store._transaction = joined  # noqa: SLF001  # pyright: ignore[reportPrivateUsage]
    try:
        yield
    finally:
        store._transaction = single  # noqa: SLF001  # pyright: ignore[reportPrivateUsage]
        connection.execute("COMMIT")


def _samples() -> tuple[list[Episode], list[Episode]]:
    """Play Toy24 until there are enough wins and losses."""
    won: list[Episode] = []
    lost: list[Episode] = []
    wanted = SAMPLES // 2
    stack = StackSpec.environment("toy24", task="hard-0000")
    with make_engine() as engine:
        jobs = (
            RolloutJob(
                task="hard-0000",
                stack=stack,
                policy=PolicySpec(id=policy),
                env_seed=1,
                policy_seed=seed,
                limits=Limits(max_steps=30),
            )
            for seed in range(10_000)
            for policy in ("solver", "random")
        )
        for _, episode in engine.run(jobs):
            kind = won if episode.success else lost
            if len(kind) < wanted:
                kind.append(episode)
            if len(won) == len(lost) == wanted:
                return won, lost
    raise RuntimeError("Toy24 was not both won and lost often enough")
