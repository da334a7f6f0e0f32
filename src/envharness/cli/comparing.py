"""What `compare` does between its configuration file and its tables."""

from __future__ import annotations

import sys
import time
from pathlib import Path
from typing import Any, cast

from pydantic import Field, model_validator
from rich.table import Table
from rich.text import Text

from envharness.campaign.cells import CellRunner
from envharness.campaign.compare import Comparison, compare
from envharness.campaign.comparison import CompareConfig
from envharness.campaign.page import PAGE, RESULT, write_comparison
from envharness.campaign.tables import all_tables, headline, warnings
from envharness.cli.config_file import read_config
from envharness.cli.output import console, say
from envharness.cli.rigging import EngineConfig, RigFile
from envharness.rollouts.engine import Engine, make_engine
from envharness.rollouts.interrupts import GRACE_SECONDS, orderly_stop
from envharness.rollouts.ledger import Budget
from envharness.rollouts.progress import make_progress
from envharness.sandbox import require_sandbox


class CompareFile(CompareConfig):
    """A configuration file of `envharness compare`: what is compared, and beside it where and how it runs."""

    run_dir: str = Field(min_length=1)
    """The folder of the comparison: one run folder a cell, and the result."""
    engine: EngineConfig = EngineConfig()
    budget: Budget = Budget()
    """What the model calls of each cell may use."""

    @model_validator(mode="before")
    @classmethod
    def _read_base(cls, data: Any) -> Any:
        """Read a base that is named by its file; what the file says of folder, engine and budget is not taken."""
        if not isinstance(data, dict):
            return data
        fields = cast("dict[str, Any]", data)
        if isinstance(path := fields.get("base"), str):
            return {**fields, "base": read_config(Path(path), RigFile).content()}
        return fields

    def content(self) -> CompareConfig:
        """Return what is compared."""
        return CompareConfig.model_validate(self.model_dump(exclude={"run_dir", "engine", "budget"}))


def carry_out(file: CompareFile, *, unsafe_hooks: bool = False, grace_seconds: float = GRACE_SECONDS) -> Comparison:
    """Run the cells that are not there yet, and return what they say together, which is written to the folder, too."""
    if not unsafe_hooks:
        require_sandbox()
    folder, content, started = Path(file.run_dir), file.content(), time.monotonic()

    def engine() -> Engine:
        return make_engine(
            file.engine.backend,
            workers=file.engine.workers,
            retries=file.engine.retries,
            unsafe_hooks=unsafe_hooks,
            episodes_per_worker=file.engine.episodes_per_worker,
            ray_address=file.engine.ray_address,
        )

    with orderly_stop(grace_seconds, say) as stop, make_progress(sys.stderr) as progress:
        runner = CellRunner(folder, engine, progress, file.budget, stop, unsafe_hooks)
        comparison = compare(content, runner)
        write_comparison(comparison, folder)
    say(f"done in {time.monotonic() - started:.0f} s; result: {folder / PAGE}, {folder / RESULT}")
    return comparison


def print_comparison(comparison: Comparison) -> None:
    """Print the tables on standard output."""
    out = console()
    out.print(Text(headline(comparison)))
    for warning in warnings(comparison):
        out.print(Text(warning, style="yellow"))
    for table in all_tables(comparison):
        shown = Table(title=table.title, caption=table.note or None, title_justify="left", caption_justify="left")
        for head in table.heads:
            shown.add_column(head)
        for row in table.rows:
            shown.add_row(*map(Text, row))
        out.print(shown)
