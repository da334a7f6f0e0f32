"""`envharness report`: writes a run's report anew."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from envharness.cli.output import console


def report(
    run: Annotated[Path, typer.Argument(help="A run folder.")],
    out: Annotated[Path | None, typer.Option(help="Where to write it; the run folder by default.")] = None,
) -> None:
    """Write the report of a run: one HTML file that loads nothing from anywhere."""
    from envharness.cli.hardening import result_in, write_page
    from envharness.cli.rigging import write_report_of
    from envharness.store.database import RunStore

    with RunStore.read(run) as store:
        hardened = result_in(store)
        path = write_report_of(store, out) if hardened is None else write_page(hardened, store, out)
    console().print(str(path), markup=False, soft_wrap=True)
