"""The dependency matrix for a terminal. Names and reasons may come from traces: everything is shown as text."""

from __future__ import annotations

from rich.box import SIMPLE_HEAD
from rich.console import Group, RenderableType
from rich.table import Table
from rich.text import Text

from envharness.campaign.harden import wording
from envharness.campaign.harden.records import HardenResult, Row
from envharness.core.messages import counted
from envharness.report.terminal import NAME_LIMIT, TEXT_LIMIT, line

_STYLES = {"leans": "red", "gains": "green", "unclear": "", "not_played": "dim"}
HEADS = ("variant", "played", "success", "change (95 %)", "turns")
_NAME_WIDTH = 27


def result_tables(result: HardenResult) -> Group:
    """Return the matrix, what it leaves out, and the one line that sums it up."""
    each = counted(result.rollouts_each, "rollout")
    table = Table(
        title=line(f"{result.environment}, {result.policy}: {counted(len(result.tasks), 'task')}, {each} each"),
        caption="As it is → in the variant; change in percentage points; below, what losses shifted to.",
        title_justify="left",
        caption_justify="left",
        box=SIMPLE_HEAD,
        pad_edge=False,
    )
    table.add_column(HEADS[0], overflow="fold", max_width=_NAME_WIDTH)
    for head in HEADS[1:]:
        table.add_column(head, justify="left" if head == "success" else "right", no_wrap=head != "success")
    whole = f"{wording.rate(result.baseline)} ({wording.span(result.baseline_interval)})"
    turns = result.baseline.mean_steps
    table.add_row("as it is", str(len(result.tasks)), whole, "", "" if turns is None else f"{turns:.1f}")
    for row in result.rows:
        table.add_row(*_cells(row, len(result.tasks)), style=_STYLES[row.finding])
    parts: list[RenderableType] = [table]
    parts += [line(note, "yellow", TEXT_LIMIT) for note in wording.notes(result)]
    parts.append(line(wording.headline(result), "bold", TEXT_LIMIT))
    parts.append(line(wording.worst(result), limit=TEXT_LIMIT))
    parts.append(Text(f"{result.rollouts:,} rollouts, {result.invalid:,} invalid"))
    return Group(*parts)


def _cells(row: Row, tasks: int) -> list[Text]:
    name, played = line(row.variant.id, limit=NAME_LIMIT), row.cases.get("played", 0)
    cases = Text(f"{played} of {tasks}")
    others = line(wording.elsewhere(row), "dim")
    if not played:
        return [name, cases, others]
    success = Text(f"{wording.rate(row.baseline)} → {wording.rate(row.played)}")
    beneath = [text for text in (line(wording.shift(row), "dim"), others) if text.plain]
    return [name, cases, Text("\n").join([success, *beneath]), Text(wording.change(row)), Text(wording.steps(row))]
