"""`envharness demo`: the whole method in about a minute, offline, with what ships in the package."""

from __future__ import annotations

import shutil
from importlib.resources import as_file, files
from pathlib import Path
from typing import Annotated

import typer

from envharness.cli.config_file import read_config
from envharness.cli.options import GraceOption, Workers
from envharness.cli.output import print_json, say
from envharness.rollouts.interrupts import GRACE_SECONDS


def demo(
    run_dir: Annotated[str, typer.Option(help="Run folder.")] = "runs/demo",
    tasks: Annotated[int | None, typer.Option(min=1, help="How many puzzles.")] = None,
    seed: Annotated[int | None, typer.Option(help="Seed of all random streams.")] = None,
    workers: Workers = None,
    grace: GraceOption = GRACE_SECONDS,
    *,
    as_json: Annotated[bool, typer.Option("--json", help="End with one JSON object.")] = False,
) -> None:
    """Turn frozen 24-game puzzles, always won or never won, into tasks that their policy wins about half the time."""
    from envharness.cli.rigging import RigFile, carry_out, print_run
    from envharness.core.errors import ConfigChangedError
    from envharness.store.database import RunStore

    overrides = {"run_dir": run_dir, "tasks.count": tasks, "seed": seed, "engine.workers": workers}
    with as_file(files("envharness.cli") / "demo.yaml") as path:
        file = read_config(path, RigFile, overrides)
    say("Toy24: a policy with weaknesses plays frozen puzzles, and EnvRigger reshapes each of them.")
    say("A component that does nothing goes through the same gate: that is what luck alone would do.")
    say("Fresh rollouts, which took no part in any decision, say what the acceptances were worth.")
    try:
        summary = carry_out(file, command="demo", grace_seconds=grace)
    except ConfigChangedError:
        with RunStore.read(Path(run_dir)) as store:
            if store.command != "demo":
                raise
        say(f"{run_dir} holds the demo of another version or with other options: starting afresh.")
        shutil.rmtree(run_dir)
        summary = carry_out(file, command="demo", grace_seconds=grace)
    if as_json:
        print_json(summary.model_dump(mode="json"))
    else:
        print_run(Path(run_dir))
