"""The dependency matrix for a terminal. Names and reasons may come from traces: everything is shown as text."""

from __future__ import annotations

from rich.console import Group, RenderableType
from rich.table import Table
from rich.text import Text

from envharness.campaign.harden import wording
from envharness.campaign.harden.records import HardenResult, Row
from envharness.report.terminal import NAME_LIMIT, TEXT_LIMIT, line

_STYLES = {"leans": "red", "gains": "green", "unclear": "", "not_played": "dim"}
HEADS = ("variant", "tasks", "as it is", "in variant", "change, points (95 %)", "turns", "lost by")
_NARROW = 24


def result_tables(result: HardenResult) -> Group:
    """Return the matrix, what it leaves out, and the one line that sums it up."""
    table = Table(
        title=f"{result.environment}, {result.policy}: {len(result.tasks)} tasks, {result.rollouts_each} rollouts each",
        caption=f"{result.rollouts:,} rollouts, {result.invalid:,} invalid",
        title_justify="left",
        caption_justify="left",
    )
    for head in HEADS:
        table.add_column(head, overflow="fold", max_width=_NARROW if head in {"variant", "lost by"} else None)
    low_high = wording.span(result.baseline_interval)
    table.add_row("as it is", str(len(result.tasks)), f"{wording.rate(result.baseline)}\n{low_high}")
    for row in result.rows:
        table.add_row(*_cells(row), style=_STYLES[row.finding])
    parts: list[RenderableType] = [table]
    parts += [line(note, "yellow", TEXT_LIMIT) for note in wording.notes(result)]
    parts.append(line(wording.headline(result), "bold", TEXT_LIMIT))
    return Group(*parts)


def _cells(row: Row) -> list[Text]:
    measured = row.finding != "not_played"
    name = line(row.variant.id, limit=NAME_LIMIT)
    if not measured:
        return [name, line(wording.where(row))]
    return [
        name,
        line(wording.where(row)),
        Text(f"{wording.rate(row.baseline)}\n{wording.span(row.baseline_interval)}"),
        Text(f"{wording.rate(row.played)}\n{wording.span(row.played_interval)}"),
        Text(wording.change(row)),
        Text(wording.steps(row)),
        line(wording.shift(row)),
    ]
