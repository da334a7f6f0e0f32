"""What `harden` does between its configuration file and its exit code, and how its runs are shown again."""

from __future__ import annotations

import time
from pathlib import Path

import typer
from pydantic import Field

from envharness.campaign.harden.config import HardenConfig
from envharness.campaign.harden.loop import harden
from envharness.campaign.harden.matrix import shift_of
from envharness.campaign.harden.page import render
from envharness.campaign.harden.records import HardenResult
from envharness.campaign.harden.results import COMMAND, load_result
from envharness.campaign.harden.terminal import result_tables
from envharness.cli.output import console, failure, print_json, say
from envharness.cli.run_folder import EngineConfig, open_run
from envharness.core.errors import MachineryError
from envharness.core.files import write_atomically
from envharness.rollouts.ledger import Budget
from envharness.store.database import RunStore

REPORT = "report.html"


class HardenFile(HardenConfig):
    """A configuration file of `envharness harden`: the run's content, and beside it where and how it runs."""

    run_dir: str = Field(min_length=1)
    """The run folder: database, hardened stacks, report."""
    min_success: float | None = Field(default=None, ge=0.0, le=1.0)
    """The success rate that the suite and each of its variants must reach; below it the command ends with 1."""
    engine: EngineConfig = EngineConfig()
    budget: Budget = Budget()
    """What model calls may use; a run that spent it pauses, and a larger one lets the same command go on."""

    def content(self) -> HardenConfig:
        """Return what decides the run's content; a resumed run is held to it."""
        return HardenConfig.model_validate(self.model_dump(exclude={"run_dir", "min_success", "engine", "budget"}))


def carry_out(file: HardenFile, *, resume: bool, unsafe_hooks: bool, grace_seconds: float) -> HardenResult:
    """Start or go on with the run that `file` describes, and write its report."""
    folder, content = Path(file.run_dir), file.content()
    content.policy.check()  # before there is a run folder that remembers a wrong configuration
    started = time.monotonic()
    with open_run(
        folder,
        file.engine,
        config=content.model_dump(mode="json"),
        command=COMMAND,
        resume=resume,
        unsafe_hooks=unsafe_hooks,
        grace_seconds=grace_seconds,
    ) as run:
        result = harden(
            content,
            store=run.store,
            engine=run.engine,
            progress=run.progress,
            unsafe_hooks=unsafe_hooks,
            budget=file.budget,
            stop=run.stop,
        )
        write_page(result, run.store)
    say(f"done in {time.monotonic() - started:.0f} s; report: {folder / REPORT}, hardened stacks: {folder / 'stacks'}")
    return result


def write_page(result: HardenResult, store: RunStore, path: Path | None = None) -> Path:
    """Write the report of a hardening run, into its folder unless `path` says otherwise."""
    path = path or store.folder / REPORT
    write_atomically(path, render(result, store.config).encode())
    return path


def result_in(store: RunStore) -> HardenResult | None:
    """Return the result of a hardening run; None where it has not come to one, or the run is of another command."""
    return load_result(store) if store.command == COMMAND else None


def print_result(result: HardenResult, min_success: float | None = None, *, as_json: bool = False) -> None:
    """Print the matrix on standard output, as tables or as one JSON object."""
    if as_json:
        print_json(summary_json(result, min_success))
    else:
        console().print(result_tables(result))


def summary_json(result: HardenResult, min_success: float | None) -> dict[str, object]:
    """Return the result for scripts: the matrix, the worst of it, and the cases behind it without their stacks."""
    rows = [
        {
            **row.variant.model_dump(mode="json"),
            **row.model_dump(mode="json", exclude={"variant"}),
            "success_rate": row.played.success_rate,
            "baseline_success_rate": row.baseline.success_rate,
            "suite_success_rate": row.suite.success_rate,
            "mean_steps": row.played.mean_steps,
            "baseline_mean_steps": row.baseline.mean_steps,
            "failure_shift": {reason: after - before for reason, before, after in shift_of(row)},
        }
        for row in result.rows
    ]
    worst = result.worst
    return {
        "tasks": len(result.tasks),
        "baseline_success_rate": result.baseline.success_rate,
        "variants": rows,
        "worst": None if worst is None else {"variant": worst[0], "success_rate": worst[1]},
        "min_success": min_success,
        "cases": [case.model_dump(mode="json", exclude={"stack"}) for case in result.cases],
        "left_out": result.left_out,
        "rollouts": result.rollouts,
        "invalid": result.invalid,
        "seconds": result.seconds,
        "run_dir": result.run_dir,
    }


def hold_to(result: HardenResult, min_success: float | None) -> None:
    """End with 1 where a rate lies below the threshold, and with the machinery's code where too little is known."""
    worst = result.worst
    if worst is None:
        raise MachineryError(
            f"all {result.rollouts} rollouts are invalid, so nothing was measured; the report in {result.run_dir} "
            "says why"
        )
    if min_success is None:
        return
    name, rate = worst
    if rate < min_success:
        over = f", over {result.rollouts - result.invalid} of {result.rollouts} rollouts" if result.invalid else ""
        failure(f"{name}: success rate {rate:.2f} is below --min-success {min_success:g}{over}")
        raise typer.Exit(1)
    if result.undecided:
        first = result.undecided[0]
        raise MachineryError(
            f"{len(result.undecided)} variants of tasks could not be measured, so the suite is not held to "
            f"--min-success: the first is {first.variant} of {first.task}: {first.detail}"
        )
