"""Runs the cells of a comparison, one after the other, each a rigging run in a folder of its own that can go on."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass, field
from pathlib import Path

from envharness.campaign.comparison import Cell, CompareConfig, cells_of
from envharness.core.errors import EnvHarnessError
from envharness.core.spec import StackSpec
from envharness.llm.make import client_for
from envharness.report import write_report
from envharness.rigger import resets
from envharness.rigger.calls import ClientMaker
from envharness.rigger.config import RigConfig
from envharness.rigger.designers.base import build_designer
from envharness.rigger.loop import rig
from envharness.rigger.results import decided_tasks
from envharness.rigger.stacks import recorded_config
from envharness.rollouts.engine import Engine
from envharness.rollouts.interrupts import StopRequest
from envharness.rollouts.ledger import Budget
from envharness.rollouts.progress import Progress, SilentProgress
from envharness.store.database import RunStore
from envharness.store.schema import DATABASE_FILE

SHARED_PHASES = (resets.PHASE, "rig/baseline", "remeasure/before")
"""Where a run files the rollouts on the base stack, which are the same jobs whoever designs."""
REPORT = "report.html"


@dataclass(frozen=True)
class CellRunner:
    """Brings the cells of a comparison to their end. A cell that is there already plays nothing."""

    folder: Path
    make_engine: Callable[[], AbstractContextManager[Engine]]
    """Makes the engine of one cell, so that its processes belong to the cell's run."""
    progress: Progress = field(default_factory=SilentProgress)
    budget: Budget = field(default_factory=Budget)
    """What the model calls of each cell may use."""
    stop: StopRequest = field(default_factory=StopRequest)
    unsafe_hooks: bool = False
    make_client: ClientMaker = client_for

    def run(self, config: CompareConfig) -> list[Cell]:
        """Run every cell and return them. Raises what `rig` raises, and ConfigError for tasks that are not there."""
        for policy in config.players.values():
            config.base.model_copy(update={"policy": policy}).check_policy()
        cells = cells_of(config, comparison_tasks(config.base))
        for cell in cells:  # a mistake in the last one must not show after hours in the others
            build_designer(cell.config.designer, cell.config.policy)
        for number, cell in enumerate(cells, 1):
            self.progress.say(f"cell {number} of {len(cells)}: {cell}")
            alike = [other.folder(self.folder) for other in cells if cell.starts_as(other)]
            self._run_cell(cell, [folder for folder in alike if (folder / DATABASE_FILE).exists()])
        return cells

    def _run_cell(self, cell: Cell, alike: Sequence[Path]) -> None:
        folder = cell.folder(self.folder)
        with RunStore.open(folder, config=recorded_config(cell.config), command="rig") as store:
            if len(decided_tasks(store)) < len(cell.tasks):
                for source in alike:
                    take_over(source, store)
            try:
                with self.make_engine() as engine:
                    rig(
                        cell.config,
                        store=store,
                        engine=engine,
                        progress=self.progress,
                        unsafe_hooks=self.unsafe_hooks,
                        make_client=self.make_client,
                        budget=self.budget,
                        stop=self.stop,
                    )
            except EnvHarnessError:
                store.forget_empty()
                raise
            write_report(store, folder / REPORT)


def comparison_tasks(base: RigConfig) -> list[str]:
    """Return the tasks that every cell is about; a selection is made once, with the base's seed."""
    with StackSpec.environment(base.environment.id, **base.environment.options).build() as env:
        return base.choose_tasks(env.list_tasks())


def take_over(source: Path, store: RunStore) -> int:
    """Copy the valid rollouts on the base stack from another designer's run; return how many were there.

    They are the same jobs, so playing them again would change nothing but, for a live model, the luck: every designer
    of a policy and seed starts from the same evidence. One that failed is left to be played.
    """
    taken = 0
    with RunStore.read(source) as other:
        for phase in SHARED_PHASES:
            for key, _, episode in other.episodes(phase=phase):
                if episode.valid:
                    store.put_episode(key, phase, episode, other.get_job(key))
                    taken += 1
    return taken
