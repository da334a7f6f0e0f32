"""`envharness clean`: ends what runs that were killed left behind, known by the label that it carries."""

from __future__ import annotations

from dataclasses import asdict
from pathlib import Path
from typing import Annotated

import typer
from rich.text import Text

from envharness.cli.output import console, print_json
from envharness.core.errors import ConfigError, MachineryError


def clean(
    runs: Annotated[list[Path] | None, typer.Argument(metavar="[RUN]...", help="Run folders.")] = None,
    *,
    every: Annotated[bool, typer.Option("--all", help="All runs of this user on this machine.")] = False,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Only say what would be ended.")] = False,
    force: Annotated[
        bool, typer.Option("--force", help="End the RUNs named even while they go on, drivers included.")
    ] = False,
    as_json: Annotated[bool, typer.Option("--json", help="End with one JSON object.")] = False,
) -> None:
    """End leftover processes of runs whose driver is gone. They are known by their label, never by name.

    A run folder is named by where it lies; it need not exist any more. Nothing in it is touched.
    """
    from envharness.core.labels import run_id
    from envharness.rollouts.leftovers import Leftover, clean_up

    folders = {run_id(folder): str(folder) for folder in runs or []}
    if every == bool(folders):
        raise ConfigError("name run folders, or give --all (not both)")
    if force and every:
        raise ConfigError("--force ends runs that go on, so they must be named: give their folders in place of --all")
    cleaned = clean_up(None if every else folders.keys(), force=force, dry_run=dry_run)
    done = {
        "would end" if dry_run else "ended": cleaned.ended,
        "left alone, its driver lives": cleaned.kept,
        "could not be ended": cleaned.refused,
    }
    if as_json:

        def listed(items: tuple[Leftover, ...]) -> list[dict[str, object]]:
            return [{**asdict(item), "folder": folders.get(item.run)} for item in items]

        ended = {"ended": len(cleaned.ended), "kept": len(cleaned.kept), "refused": len(cleaned.refused)}
        found = {"found": [*listed(cleaned.ended), *listed(cleaned.kept), *listed(cleaned.refused)]}
        print_json({**ended, "dry_run": dry_run, **found})
    else:
        out = console()
        for how, items in done.items():
            for item in items:
                run = folders.get(item.run, f"run {item.run}")
                out.print(Text(f"{how}: {item.kind} {item.id} of {run} (driver {item.driver}): {item.description}"))
        if not any(done.values()):
            out.print("nothing is left over")
    if cleaned.refused:
        raise MachineryError(f"{len(cleaned.refused)} leftovers could not be ended; their owner or root can")
