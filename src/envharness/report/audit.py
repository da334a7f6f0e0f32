"""The audit of a run in words and cells: claimed against audited share, and the threshold that follows from both."""

from __future__ import annotations

from envharness.report.markup import Html, table, tag
from envharness.report.run import DesignerRun, Run
from envharness.report.text import percent, visible_line
from envharness.rigger.audits import suggested_threshold
from envharness.rigger.records import ShareAudit

HEADS = ("designer", "tasks", "truly in band", "95 %", "attainable", "claimed")
NAME_LIMIT = 80


def audit_title(run: Run) -> str:
    """Say what the audit rests on."""
    return f"Audit: expected share truly in band, by {run.main.figures.fresh_rollouts} fresh rollouts a task"


def audit_rows(run: Run) -> list[tuple[str, ...]]:
    """Return the cells of `HEADS`, rows of the accepted tasks first; empty where no fresh rollouts were played."""
    rows: list[tuple[str, ...]] = []
    for entry in (run.main, run.null):
        if entry is not None:
            claimed = "-" if entry.figures.claimed is None else percent(entry.figures.claimed)
            rows += _row(entry, "accepted", entry.figures.audit_accepted, claimed)
            rows += _row(entry, "of all", entry.figures.audit_all, "-")
    return rows


def audit_notes(run: Run) -> list[str]:
    """Say how to read the audit: what it could show at most, what it cost, and which threshold it asks for."""
    figures, rule = run.main.figures, run.acceptance
    audited = figures.audit_accepted or figures.audit_all
    if audited is None:
        return []
    notes = [
        (
            f"So many fresh rollouts could show {percent(audited.attainable)} if every rate were the middle of the "
            f"band ({percent(audited.ceiling)} task by task, under a flat prior). None took part in a decision."
        ),
        f"Rule {rule.rule}: {figures.rollouts_a_task:.0f} rollouts a task decided.",
    ]
    suggested = suggested_threshold(rule, figures.claimed, figures.audit_accepted)
    if suggested is not None and suggested > rule.threshold:
        notes.append(
            f"The audit falls short of the claim: for the next run it suggests acceptance.threshold {suggested:.3f} "
            f"in place of {rule.threshold:g}."
        )
    return notes


def audit_section(run: Run) -> Html | None:
    """Show the audit, or nothing where no fresh rollouts were played."""
    rows = [tag("tr", tag("th", row[0], scope="row"), [tag("td", cell) for cell in row[1:]]) for row in audit_rows(run)]
    if not rows:
        return None
    notes = [tag("p", note, class_="legend") for note in audit_notes(run)]
    return tag("section", tag("h2", "Audit"), table(HEADS, rows, caption=audit_title(run), class_="shares"), notes)


def _row(entry: DesignerRun, group: str, audited: ShareAudit | None, claimed: str) -> list[tuple[str, ...]]:
    if audited is None:
        return []
    interval = f"{audited.low * 100:.0f} to {audited.high * 100:.0f}"
    name = visible_line(entry.designer, NAME_LIMIT)
    return [(name, f"{audited.tasks} {group}", percent(audited.share), interval, percent(audited.attainable), claimed)]
