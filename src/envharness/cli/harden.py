"""`envharness harden`: plays a suite with each crutch of its policy unavailable, and says which ones it leans on."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from envharness.cli.config_file import read_config
from envharness.cli.options import EpisodesPerWorker, GraceOption, SnapshotsOption, Workers
from envharness.rollouts.interrupts import GRACE_SECONDS


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
    snapshots: SnapshotsOption = None,
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
    from envharness.cli.hardening import HardenFile, carry_out, hold_to, print_result

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
        "engine.snapshots": snapshots,
    }
    file = read_config(config, HardenFile, overrides)
    result = carry_out(file, resume=resume, unsafe_hooks=unsafe_hooks, grace_seconds=grace)
    print_result(result, file.min_success, as_json=as_json)
    hold_to(result, file.min_success)
