"""`envharness rig`: rigs every task of a configuration, or goes on with a run that was interrupted."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from envharness.cli.config_file import read_config
from envharness.cli.options import EpisodesPerWorker, GraceOption, SnapshotsOption, Workers
from envharness.cli.output import print_json
from envharness.rollouts.interrupts import GRACE_SECONDS


def rig(
    config: Annotated[Path, typer.Option("--config", "-c", help="The YAML configuration.")],
    run_dir: Annotated[str | None, typer.Option(help="Run folder; overrides the file.")] = None,
    seed: Annotated[int | None, typer.Option(help="Seed of all random streams.")] = None,
    designer: Annotated[str | None, typer.Option(help="Designer id.")] = None,
    remeasure: Annotated[int | None, typer.Option(help="Fresh rollouts a task, before and after.")] = None,
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
    """Observe, diagnose, write and validate: task by task, until the success rate lies in the band.

    Run the same command again to go on after an interruption. A run whose configuration changed is refused.
    """
    from envharness.cli.rigging import RigFile, carry_out, print_run, require_measured

    overrides = {
        "run_dir": run_dir,
        "seed": seed,
        "designer.id": designer,
        "remeasure": remeasure,
        "engine.backend": backend,
        "engine.ray_address": ray_address,
        "engine.workers": workers,
        "engine.episodes_per_worker": episodes_per_worker,
        "engine.snapshots": snapshots,
    }
    file = read_config(config, RigFile, overrides)
    summary = carry_out(file, command="rig", resume=resume, unsafe_hooks=unsafe_hooks, grace_seconds=grace)
    if as_json:
        print_json(summary.model_dump(mode="json"))
    else:
        print_run(Path(file.run_dir))
    require_measured(summary)
