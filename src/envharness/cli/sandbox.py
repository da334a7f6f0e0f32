"""`envharness sandbox`: attacks the hook sandbox and says what stopped each attack."""

from __future__ import annotations

from typing import Annotated

import typer
from rich.table import Table
from rich.text import Text

from envharness.cli.output import console, print_json

app = typer.Typer(help="The sandbox that hooks run in.", no_args_is_help=True)


@app.callback()
def root() -> None:
    """Keep `selftest` a command of its own."""


@app.command()
def selftest(*, as_json: Annotated[bool, typer.Option("--json", help="End with one JSON object.")] = False) -> None:
    """Attack the sandbox; exits with 1 where an attack is not stopped."""
    from envharness.testing.attacks import run_selftest

    results = run_selftest()
    stopped = sum(result.stopped for result in results)
    layers = sorted({result.layer for result in results if result.stopped})
    if as_json:
        print_json({"attacks": len(results), "stopped": stopped, "layers": layers})
    else:
        table = Table("attack", "stopped by", "what happened", box=None, pad_edge=False)
        for result in results:
            layer = Text(result.layer, "green") if result.stopped else Text("NOT STOPPED", "bold red")
            table.add_row(result.name, layer, Text(result.detail))
        out = console()
        out.print(table)
        out.print(f"{stopped} of {len(results)} attacks stopped, by {', '.join(layers)}", markup=False)
    if stopped < len(results):
        raise typer.Exit(1)
