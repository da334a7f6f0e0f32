"""`envharness harden`: plays a suite with each crutch of its policy unavailable, and says which ones it leans on."""

from __future__ import annotations

import time
from pathlib import Path
from typing import Annotated

import typer
from pydantic import Field

from envharness.campaign.harden.config import HardenConfig
from envharness.campaign.harden.records import HardenResult
from envharness.cli.config_file import read_config
from envharness.cli.options import EpisodesPerWorker, GraceOption, Workers
from envharness.cli.output import console, failure, print_json, say
from envharness.cli.run_folder import EngineConfig, open_run
from envharness.core.errors import MachineryError
from envharness.rollouts.interrupts import GRACE_SECONDS
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


def harden(
    config: Annotated[Path, typer.Option("--config", "-c", help="The YAML configuration.")],
    run_dir: Annotated[str | None, typer.Option(help="Run folder; overrides the file.")] = None,
    min_success: Annotated[
        float | None, typer.Option(help="Exit with 1 where the suite or a variant is won less often than this, 0 to 1.")
    ] = None,
    variant: Annotated[
        list[str] | None, typer.Option("--variant", help="Kind to play; repeat for more: tools, fields, habits ...")
    ] = None,
    rollouts: Annotated[int | None, typer.Option(help="Rollouts a task and variant.")] = None,
    seed: Annotated[int | None, typer.Option(help="Seed of all random streams.")] = None,
    backend: Annotated[str | None, typer.Option(help="inline, pool or ray.")] = None,
    ray_address: Annotated[
        str | None, typer.Option(help="host:port of a Ray cluster; without it, one of its own.")
    ] = None,
    workers: Workers = None,
    episodes_per_worker: EpisodesPerWorker = None,
    grace: GraceOption = GRACE_SECONDS,
    *,
    resume: Annotated[bool, typer.Option("--resume/--no-resume", help="Go on with a run in the folder.")] = True,
    unsafe_hooks: Annotated[
        bool, typer.Option("--unsafe-hooks", help="Run hooks without confinement, whatever this system offers.")
    ] = False,
    as_json: Annotated[bool, typer.Option("--json", help="End with one JSON object.")] = False,
) -> None:
    """Play a suite as it is, then with each tool, field and habit unavailable, staged and chained.

    Run the same command again to go on after an interruption. A run whose configuration changed is refused.
    """
    overrides = {
        "run_dir": run_dir,
        "min_success": min_success,
        "variants": variant,
        "rollouts": rollouts,
        "seed": seed,
        "engine.backend": backend,
        "engine.ray_address": ray_address,
        "engine.workers": workers,
        "engine.episodes_per_worker": episodes_per_worker,
    }
    file = read_config(config, HardenFile, overrides)
    result = _carry_out(file, resume=resume, unsafe_hooks=unsafe_hooks, grace_seconds=grace)
    if as_json:
        print_json(summary_json(result, file.min_success))
    else:
        _print(result)
    _hold_to(result, file.min_success)


def _carry_out(file: HardenFile, *, resume: bool, unsafe_hooks: bool, grace_seconds: float) -> HardenResult:
    """Start or go on with the run that `file` describes, and write its report."""
    from envharness.campaign.harden.loop import harden as play_suite
    from envharness.campaign.harden.results import COMMAND

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
        result = play_suite(
            content,
            store=run.store,
            engine=run.engine,
            progress=run.progress,
            unsafe_hooks=unsafe_hooks,
            budget=file.budget,
            stop=run.stop,
        )
        write_page(run.store)
    say(f"done in {time.monotonic() - started:.0f} s; report: {folder / REPORT}, hardened stacks: {folder / 'stacks'}")
    return result


def write_page(store: RunStore, path: Path | None = None) -> Path:
    """Write the report of a hardening run, into its folder unless `path` says otherwise."""
    from envharness.campaign.harden.page import render
    from envharness.core.files import write_atomically

    path = path or store.folder / REPORT
    write_atomically(path, render(finished(store), store.config).encode())
    return path


def finished(store: RunStore) -> HardenResult:
    """Return the result of a run. Raises MachineryError where it has not come to one."""
    from envharness.campaign.harden.results import load_result

    result = load_result(store)
    if result is None:
        raise MachineryError(f"{store.folder} has no matrix yet: the same `envharness harden` command goes on with it")
    return result


def _print(result: HardenResult) -> None:
    from envharness.campaign.harden.terminal import result_tables

    console().print(result_tables(result))


def show_run(store: RunStore, *, as_json: bool) -> None:
    """Print what `harden` printed at the end of a run."""
    result = finished(store)
    if as_json:
        print_json(summary_json(result, None))
    else:
        _print(result)


def summary_json(result: HardenResult, min_success: float | None) -> dict[str, object]:
    """Return the result for scripts: the matrix, the worst of it, and the cases behind it without their stacks."""
    from envharness.campaign.harden.matrix import shift_of

    rows = [
        {
            **row.variant.model_dump(mode="json"),
            **row.model_dump(mode="json", exclude={"variant"}),
            "success_rate": row.played.success_rate,
            "baseline_success_rate": row.baseline.success_rate,
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


def _hold_to(result: HardenResult, min_success: float | None) -> None:
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
