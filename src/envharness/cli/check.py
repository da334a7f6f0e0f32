"""`envharness check`: holds an environment to the promises of the interface."""

from __future__ import annotations

from typing import Annotated

import typer
from rich.table import Table
from rich.text import Text

from envharness.cli.options import parse_options
from envharness.cli.output import console, print_json

_STYLES = {"pass": "green", "fail": "bold red", "skip": "yellow"}


def check(
    environment: Annotated[str, typer.Argument(help="An environment's id, 'module:Class', or a stack file.")],
    task: Annotated[str | None, typer.Option(help="The task to check with.")] = None,
    option: Annotated[list[str] | None, typer.Option("--option", "-o", help="key=value for the environment.")] = None,
    seed: Annotated[int, typer.Option(help="Seed of the checks.")] = 0,
    *,
    as_json: Annotated[bool, typer.Option("--json", help="End with one JSON object.")] = False,
) -> None:
    """Check an environment; exits with 1 where a check fails."""
    from envharness.cli.stacks import stack_of
    from envharness.testing.conformance import check_env

    report = check_env(stack_of(environment, task, parse_options(option or [])), seed=seed)
    if as_json:
        print_json({"checks": [item.model_dump(mode="json") for item in report.checks]})
    else:
        table = Table("check", "status", "detail", box=None, pad_edge=False)
        for item in report.checks:
            table.add_row(item.id, Text(item.status, _STYLES[item.status]), Text(item.detail))
        console().print(table)
    if not report.passed:
        raise typer.Exit(1)
