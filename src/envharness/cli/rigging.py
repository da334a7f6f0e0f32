"""What `rig` and `demo` share: a run from configuration to report, in one folder."""

from __future__ import annotations

import time
from pathlib import Path

from pydantic import Field

from envharness.cli.output import console, say
from envharness.cli.run_folder import EngineConfig, open_run
from envharness.core.errors import MachineryError
from envharness.rigger.config import RigConfig
from envharness.rigger.loop import rig
from envharness.rigger.records import RigSummary
from envharness.rigger.stacks import recorded_config
from envharness.rollouts.interrupts import GRACE_SECONDS
from envharness.rollouts.ledger import Budget
from envharness.store.database import RunStore

REPORT = "report.html"


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


def carry_out(
    file: RigFile,
    *,
    command: str,
    resume: bool = True,
    unsafe_hooks: bool = False,
    grace_seconds: float = GRACE_SECONDS,
) -> RigSummary:
    """Start or go on with the run that `file` describes, and write its report. Returns the figures.

    A first SIGINT or SIGTERM finishes and keeps what is in flight, for `grace_seconds` at most, before it ends the run.
    """
    folder = Path(file.run_dir)
    content = file.content()
    content.check_policy()  # before there is a run folder that remembers a wrong configuration
    started = time.monotonic()
    with open_run(
        folder,
        file.engine,
        config=recorded_config(content),
        command=command,
        resume=resume,
        unsafe_hooks=unsafe_hooks,
        grace_seconds=grace_seconds,
    ) as run:
        summary = rig(
            content,
            store=run.store,
            engine=run.engine,
            progress=run.progress,
            unsafe_hooks=unsafe_hooks,
            budget=file.budget,
            stop=run.stop,
        )
        write_report_of(run.store)
    stacks = f"accepted stacks: {folder / 'stacks'}" if summary.accepted else "none accepted"
    say(f"done in {time.monotonic() - started:.0f} s; report: {folder / REPORT}, {stacks}")
    return summary


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
