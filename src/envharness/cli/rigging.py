"""What `rig` and `demo` share: a run from configuration to report, in one folder."""

from __future__ import annotations

import sys
import time
from pathlib import Path

from pydantic import BaseModel, ConfigDict, Field

from envharness.cli.output import console, say
from envharness.core.errors import EnvHarnessError
from envharness.core.types import JsonDict
from envharness.rigger.config import RigConfig
from envharness.rigger.loop import rig
from envharness.rigger.records import RigSummary
from envharness.rollouts.engine import RETRIES, Backend, make_engine
from envharness.rollouts.progress import make_progress
from envharness.sandbox import require_sandbox
from envharness.store.database import RunStore

REPORT = "report.html"


class EngineConfig(BaseModel):
    """Where rollouts run. None of it changes what a run contains, so it may differ when a run is resumed."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    backend: Backend = "pool"
    workers: int | None = Field(default=None, ge=1, le=1024)
    """Worker processes; None is one a core."""
    retries: int = Field(default=RETRIES, ge=0, le=20)
    """Attempts beyond the first for an episode that the machinery lost."""


class RigFile(RigConfig):
    """A configuration file of `envharness rig`: the run's content, and beside it where and how it runs."""

    run_dir: str = Field(min_length=1)
    """The run folder: database, accepted stacks, report."""
    engine: EngineConfig = EngineConfig()

    def content(self) -> RigConfig:
        """Return what decides the run's content; a resumed run is held to it."""
        return RigConfig.model_validate(self.model_dump(exclude={"run_dir", "engine"}))


def carry_out(file: RigFile, *, command: str, resume: bool = True, unsafe_hooks: bool = False) -> RigSummary:
    """Start or go on with the run that `file` describes, and write its report. Returns the figures."""
    if not unsafe_hooks:
        require_sandbox()
    folder = Path(file.run_dir)
    content = file.content()
    recorded: JsonDict = content.model_dump(mode="json")
    started = time.monotonic()
    with (
        RunStore.open(folder, config=recorded, command=command, resume=resume) as store,
        make_engine(
            file.engine.backend, workers=file.engine.workers, retries=file.engine.retries, unsafe_hooks=unsafe_hooks
        ) as engine,
        make_progress(sys.stderr) as progress,
    ):
        try:
            summary = rig(content, store=store, engine=engine, progress=progress, unsafe_hooks=unsafe_hooks)
        except EnvHarnessError:
            # What stopped it may be the configuration itself, which must not bind a folder that holds nothing yet.
            store.forget_empty()
            raise
        write_report_of(store)
    stacks = f"accepted stacks: {folder / 'stacks'}" if summary.accepted else "none accepted"
    say(f"done in {time.monotonic() - started:.0f} s; report: {folder / REPORT}, {stacks}")
    return summary


def write_report_of(store: RunStore, path: Path | None = None) -> Path:
    """Write the report of a run, into its folder unless `path` says otherwise."""
    from envharness.report import write_report

    path = path or store.folder / REPORT
    write_report(store, path)
    return path


def print_run(folder: Path) -> None:
    """Print the overview of a run on standard output."""
    from envharness.report.terminal import run_tables

    with RunStore.read(folder) as store:
        console().print(run_tables(store))
