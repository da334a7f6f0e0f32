"""`envharness compare`: designers on the same tasks, policy and rollout budget, several seeds, and a control."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from envharness.cli.config_file import read_config
from envharness.cli.options import EpisodesPerWorker, GraceOption, Workers
from envharness.cli.output import print_json
from envharness.rollouts.interrupts import GRACE_SECONDS


def compare(
    config: Annotated[Path, typer.Option("--config", "-c", help="The YAML configuration.")],
    run_dir: Annotated[str | None, typer.Option(help="Folder of the comparison; overrides the file.")] = None,
    workers: Workers = None,
    episodes_per_worker: EpisodesPerWorker = None,
    grace: GraceOption = GRACE_SECONDS,
    *,
    unsafe_hooks: Annotated[
        bool, typer.Option("--unsafe-hooks", help="Run hooks without confinement, whatever this system offers.")
    ] = False,
    as_json: Annotated[bool, typer.Option("--json", help="End with one JSON object.")] = False,
) -> None:
    """Tell insight from luck: rig the same tasks with several designers and seeds, and test the differences.

    Run the same command again to go on after an interruption; further designers, seeds and policies may be added.
    """
    from envharness.cli.comparing import CompareFile, carry_out, print_comparison

    overrides = {
        "run_dir": run_dir,
        "engine.workers": workers,
        "engine.episodes_per_worker": episodes_per_worker,
    }
    file = read_config(config, CompareFile, overrides)
    comparison = carry_out(file, unsafe_hooks=unsafe_hooks, grace_seconds=grace)
    if as_json:
        print_json(comparison.model_dump(mode="json"))
    else:
        print_comparison(comparison)
