"""`envharness envs`: what there is to work with."""

from __future__ import annotations

from typing import Annotated

import typer

from envharness.cli.options import parse_options
from envharness.cli.output import console, print_json


def envs(
    environment: Annotated[str | None, typer.Argument(help="List the tasks of this environment.")] = None,
    option: Annotated[list[str] | None, typer.Option("--option", "-o", help="key=value for the environment.")] = None,
    *,
    as_json: Annotated[bool, typer.Option("--json", help="End with one JSON object.")] = False,
) -> None:
    """List environments, components, policies and designers, or the tasks of one environment."""
    from envharness.core.registry import names
    from envharness.core.spec import make

    out = console()
    if environment is not None:
        with make(environment, **parse_options(option or [])) as env:
            tasks = env.list_tasks()
        if as_json:
            print_json({"environment": environment, "tasks": tasks})
        else:
            out.print("\n".join(tasks), markup=False, soft_wrap=True)
        return
    kinds = {
        "environments": names("environment"),
        "components": names("component"),
        "policies": names("policy"),
        "designers": names("designer"),
    }
    if as_json:
        print_json(kinds)
        return
    for kind, found in kinds.items():
        out.print(f"{kind:<13} {', '.join(found)}", markup=False, soft_wrap=True)
