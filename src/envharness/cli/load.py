"""`envharness load`: turns an exported stack back into a live environment and shows it."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer
from rich.text import Text

from envharness.cli.output import console, print_json


def load(
    path: Annotated[Path, typer.Argument(help="A stack file, as `rig` exports it.")],
    seed: Annotated[int, typer.Option(help="Seed of the reset.")] = 0,
    *,
    as_json: Annotated[bool, typer.Option("--json", help="End with one JSON object.")] = False,
) -> None:
    """Build a stored stack, reset it, and show its layers and its first observation."""
    from envharness.components.stack_file import load_stack

    with load_stack(path) as env:
        start = env.reset(seed)
        layers = [type(layer).__name__ for layer in env.layers()]
        if as_json:
            print_json({"task": env.task_id, "layers": layers, "observation": start.observation.text})
            return
        out = console()
        out.print(Text(f"task    {env.task_id}"))
        out.print(Text(f"layers  {' > '.join(layers)}"))
        out.print(Text(start.observation.text))
