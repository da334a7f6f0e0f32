"""What `rig` and `demo` share: a run from configuration to report, in one folder."""

from __future__ import annotations

import sys
import time
from pathlib import Path
from typing import Annotated

from pydantic import BaseModel, ConfigDict, Field, PlainValidator

from envharness.cli.output import console, say
from envharness.core.errors import EnvHarnessError, MachineryError
from envharness.core.version import VERSION
from envharness.rigger.config import RigConfig
from envharness.rigger.loop import rig
from envharness.rigger.records import RigSummary
from envharness.rigger.stacks import recorded_config
from envharness.rollouts.engine import RETRIES, Backend, make_engine
from envharness.rollouts.interrupts import GRACE_SECONDS, orderly_stop
from envharness.rollouts.ledger import Budget, describe_usage, read_ledger
from envharness.rollouts.progress import Progress, make_progress
from envharness.rollouts.sizing import Count, read_count
from envharness.rollouts.snapshots.snapshots import SnapshotMode
from envharness.sandbox import require_sandbox
from envharness.store.database import RunStore

REPORT = "report.html"


class EngineConfig(BaseModel):
    """Where rollouts run. None of it changes what a run contains, so it may differ when a run is resumed."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    backend: Backend = "pool"
    workers: Annotated[Count, PlainValidator(read_count)] = "auto"
    """The most worker processes; `auto` is one a core, and fewer where memory or a model's endpoints are small."""
    episodes_per_worker: Annotated[Count, PlainValidator(read_count)] = "auto"
    """Episodes that a worker plays at once; `auto` is one where policies compute, and what the endpoints take where
    they wait for a model."""
    ray_address: str | None = Field(default=None, pattern=r"^[^\s/:]+:[0-9]{1,5}$|^\[[0-9a-fA-F:]+\]:[0-9]{1,5}$")
    """`host:port` of the Ray cluster to join, for the backend `ray`; None starts one on this machine."""
    snapshots: SnapshotMode = "auto"
    """When rollouts are forked from one staged start: `auto` where that has proved to pay, `always` where it can be
    done, or `never`."""
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
    if not unsafe_hooks:
        require_sandbox()
    folder = Path(file.run_dir)
    content = file.content()
    content.check_policy()  # before there is a run folder that remembers a wrong configuration
    started = time.monotonic()
    with (
        orderly_stop(grace_seconds, say) as stop,
        RunStore.open(folder, config=recorded_config(content), command=command, resume=resume) as store,
        make_engine(
            file.engine.backend,
            workers=file.engine.workers,
            retries=file.engine.retries,
            unsafe_hooks=unsafe_hooks,
            episodes_per_worker=file.engine.episodes_per_worker,
            snapshots=file.engine.snapshots,
            ray_address=file.engine.ray_address,
        ) as engine,
        make_progress(sys.stderr) as progress,
    ):
        if store.version != VERSION:
            say(f"{folder} was begun with envharness {store.version}; this is {VERSION}, which goes on with it")
        try:
            summary = rig(
                content,
                store=store,
                engine=engine,
                progress=progress,
                unsafe_hooks=unsafe_hooks,
                budget=file.budget,
                stop=stop,
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
