"""What `rig` and `demo` share: a run from configuration to report, in one folder."""

from __future__ import annotations

import sys
import time
from pathlib import Path

from pydantic import BaseModel, ConfigDict, Field

from envharness.cli.output import console, say
from envharness.core.errors import EnvHarnessError, MachineryError
from envharness.core.types import JsonDict
from envharness.rigger.config import RigConfig
from envharness.rigger.loop import rig
from envharness.rigger.records import RigSummary
from envharness.rigger.stacks import stacks_digest
from envharness.rollouts.engine import RETRIES, Backend, make_engine
from envharness.rollouts.ledger import Budget, describe_usage, read_ledger
from envharness.rollouts.progress import Progress, make_progress
from envharness.sandbox import require_sandbox
from envharness.store.database import RunStore

REPORT = "report.html"


class EngineConfig(BaseModel):
    """Where rollouts run. None of it changes what a run contains, so it may differ when a run is resumed."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    backend: Backend = "pool"
    workers: int | None = Field(default=None, ge=1, le=1024)
    """Worker processes; None is one a core."""
    episodes_per_worker: int = Field(default=1, ge=1, le=10_000)
    """Episodes that a worker plays at once. More than one pays where policies wait, as those that ask a model do."""
    retries: int = Field(default=RETRIES, ge=0, le=20)
    """Attempts beyond the first for an episode that the machinery lost."""


class RigFile(RigConfig):
    """A configuration file of `envharness rig`: the run's content, and beside it where and how it runs."""

    run_dir: str = Field(min_length=1)
    """The run folder: database, accepted stacks, report."""
    engine: EngineConfig = EngineConfig()
    budget: Budget = Budget()
    """What model calls may use; a run that spent it pauses, and a larger one lets the same command go on."""

    def content(self) -> RigConfig:
        """Return what decides the run's content; a resumed run is held to it."""
        return RigConfig.model_validate(self.model_dump(exclude={"run_dir", "engine", "budget"}))


def carry_out(file: RigFile, *, command: str, resume: bool = True, unsafe_hooks: bool = False) -> RigSummary:
    """Start or go on with the run that `file` describes, and write its report. Returns the figures."""
    if not unsafe_hooks:
        require_sandbox()
    folder = Path(file.run_dir)
    content = file.content()
    content.check_policy()  # before there is a run folder that remembers a wrong configuration
    recorded: JsonDict = content.model_dump(mode="json")
    if content.stack_path is not None:
        # What the run builds on is what stands in the files, wherever they are.
        recorded["stacks"] = f"sha256:{stacks_digest(content.stack_path)}"
    started = time.monotonic()
    with (
        RunStore.open(folder, config=recorded, command=command, resume=resume) as store,
        make_engine(
            file.engine.backend,
            workers=file.engine.workers,
            retries=file.engine.retries,
            unsafe_hooks=unsafe_hooks,
            episodes_per_worker=file.engine.episodes_per_worker,
        ) as engine,
        make_progress(sys.stderr) as progress,
    ):
        try:
            summary = rig(
                content,
                store=store,
                engine=engine,
                progress=progress,
                unsafe_hooks=unsafe_hooks,
                budget=file.budget,
            )
        except EnvHarnessError:
            _say_usage(store, progress)
            # What stopped it may be the configuration itself, which must not bind a folder that holds nothing yet.
            store.forget_empty()
            raise
        _say_usage(store, progress)
        write_report_of(store)
    stacks = f"accepted stacks: {folder / 'stacks'}" if summary.accepted else "none accepted"
    say(f"done in {time.monotonic() - started:.0f} s; report: {folder / REPORT}, {stacks}")
    return summary


def _say_usage(store: RunStore, progress: Progress) -> None:
    for role, usage in read_ledger(store).by_role().items():
        progress.say(f"{role}: {describe_usage(usage)}")


def write_report_of(store: RunStore, path: Path | None = None) -> Path:
    """Write the report of a run, into its folder unless `path` says otherwise."""
    from envharness.report import write_report

    path = path or store.folder / REPORT
    write_report(store, path)
    return path


def require_measured(summary: RigSummary) -> None:
    """Raise MachineryError where every rollout was lost on the machinery's side, so that nothing is known."""
    if summary.rollouts and summary.invalid == summary.rollouts:
        raise MachineryError(
            f"all {summary.rollouts} rollouts are invalid, so nothing was measured; "
            f"`envharness show {summary.run_dir}` says why"
        )


def print_run(folder: Path) -> None:
    """Print the overview of a run on standard output."""
    from envharness.report.run import load_run
    from envharness.report.terminal import run_tables

    with RunStore.read(folder) as store:
        console().print(run_tables(load_run(store)))
