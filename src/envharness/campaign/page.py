"""The files of a comparison: the result as JSON, and as a Markdown page of checked names and numbers."""

from __future__ import annotations

from pathlib import Path

import orjson

from envharness.campaign.compare import Comparison
from envharness.campaign.tables import TextTable, all_tables, headline, warnings
from envharness.core.files import write_atomically

RESULT = "compare.json"
PAGE = "compare.md"


def write_comparison(comparison: Comparison, folder: Path) -> None:
    """Write both files into `folder`. Raises StoreError where that fails."""
    body = orjson.dumps(comparison.model_dump(mode="json"), option=orjson.OPT_INDENT_2)
    write_atomically(folder / RESULT, body)
    write_atomically(folder / PAGE, markdown(comparison).encode())


def markdown(comparison: Comparison) -> str:
    """Return the page."""
    introduction = (
        f"{headline(comparison)}. Reference: `{comparison.reference}`. In brackets: 95 % bootstrap intervals over "
        "tasks, all seeds of a task together."
    )
    parts = [
        "# Designers compared",
        introduction,
        *(f"**{warning}.**" for warning in warnings(comparison)),
        *(_table(table) for table in all_tables(comparison)),
    ]
    return "\n\n".join(parts) + "\n"


def _table(table: TextTable) -> str:
    lines = [f"## {table.title}", "", _row(table.heads), _row(["---"] * len(table.heads)), *map(_row, table.rows)]
    return "\n".join(lines) + (f"\n\n{table.note}" if table.note else "")


def _row(cells: list[str] | tuple[str, ...]) -> str:
    return "| " + " | ".join(cells) + " |"
