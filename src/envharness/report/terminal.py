"""A run as tables for a terminal. Everything from a trace is shown as text: no markup, no control sequence acts."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import takewhile

from rich.console import Group, RenderableType
from rich.padding import Padding
from rich.syntax import Syntax
from rich.table import Table
from rich.text import Text

from envharness.core.messages import counted
from envharness.core.trace import Episode, TraceStep
from envharness.report.audit import HEADS as AUDIT_HEADS
from envharness.report.audit import audit_notes, audit_rows, audit_title
from envharness.report.figures import belief_text, rate_text
from envharness.report.numbers import Band, Figures, by_round, flaw_of
from envharness.report.run import Run
from envharness.report.source import call_text, candidate_line
from envharness.report.standing import HEADS as STANDING_HEADS
from envharness.report.standing import standing_of
from envharness.report.text import cut, duration, percent, visible, visible_line, words
from envharness.report.usage import HEADS, Spending
from envharness.report.weaknesses import Weakness, declared_weaknesses
from envharness.rigger.records import NULL_DESIGNER, Round, TaskResult
from envharness.rigger.summary import Share, accepted_round, deciding_measurement

NAME_LIMIT = 72
NAME_WIDTH = 20
"""Columns of a task's name in a table that must fit into 80."""
TEXT_LIMIT = 600
STEPS_SHOWN = 30
_STYLES = {"accepted": "green", "in_band_already": "cyan", "rejected": "red", "invalid": "yellow"}
_OUTCOMES = {"success": ("won", "green"), "failure": ("lost", "red"), "invalid": ("invalid", "yellow")}


def line(text: str, style: str = "", limit: int = NAME_LIMIT) -> Text:
    """Return `text` as one line that a terminal shows and does not obey."""
    return Text(visible_line(text, limit), style=style)


def paragraph(text: str, style: str = "", limit: int = TEXT_LIMIT) -> Text:
    """Return `text` with its line breaks; everything else that is unseen is written out."""
    return Text(visible(cut(text, limit)), style=style)


def run_tables(run: Run) -> Group:
    """Return the whole overview of a run: figures, weaknesses, tasks; of one without a finished task what there is."""
    if not run.main.results:
        head = Text("This run has finished no task yet.", style="yellow")
        return Group(head, *standing_lines(run), *usage_lines(run.spending))
    declared = declared_weaknesses(run.config.get("policy"))
    parts: list[RenderableType] = [summary_table(run), *audit_lines(run)]
    parts += [flaw_table(run.main.figures, declared), task_table(run)]
    parts += usage_lines(run.spending)
    parts += [
        line(f"{result.task}: {result.reason}", _STYLES["invalid"], TEXT_LIMIT)
        for result in run.main.results
        if result.status == "invalid"
    ]
    if not run.finished:
        parts.insert(0, Text("This run has not finished: shares are over the tasks done so far.", style="yellow"))
        parts += standing_lines(run)
    return Group(*parts)


def summary_table(run: Run) -> Table:
    """Tabulate the share of all tasks in band, the null beneath, and what was spent."""
    rollouts, invalid, seconds = run.spend
    spent = duration(seconds) if seconds is not None else "not finished"
    low, high = run.band.low, run.band.high
    table = Table(
        title=f"Share of all tasks with a success rate in [{low:g}, {high:g}], 95 % interval",
        caption=f"{rollouts:,} rollouts, {invalid:,} invalid, {spent}",
        title_justify="left",
        caption_justify="left",
    )
    deciding, fresh = run.main.figures.deciding_rollouts, run.main.figures.fresh_rollouts
    after = f"after (K {'≤' if run.main.figures.deciding_differ else '='} {deciding})"
    heads = ["designer", "tasks", "accepted", "before", after]
    heads.append(f"re-measured ({fresh})" if fresh else "re-measured")
    for head in heads:
        table.add_column(head)
    for entry in (run.main, run.null):
        if entry is not None:
            table.add_row(line(entry.designer), *_summary_cells(entry.figures))
    if run.null is None:
        table.add_row(Text(NULL_DESIGNER, style="dim"), *[Text("not run", style="dim")] * 5)
    return table


def audit_lines(run: Run) -> list[RenderableType]:
    """Tabulate the audit, how to read it beneath; nothing where no fresh rollouts were played."""
    rows = audit_rows(run)
    if not rows:
        return []
    table = Table(title=audit_title(run), title_justify="left")
    for head in AUDIT_HEADS:
        table.add_column(head)
    for name, *cells in rows:
        table.add_row(line(name), *cells)
    return [table, *(Text(note) for note in audit_notes(run))]


def standing_lines(run: Run) -> list[RenderableType]:
    """Say where an unfinished run stands: episodes by phase, the last one lost, how to go on."""
    standing = standing_of(run.store, run.spending)
    table = Table(title="Episodes so far", title_justify="left")
    for head in STANDING_HEADS:
        table.add_column(head, justify="left" if head == "phase" else "right")
    for phase, *numbers in standing.rows():
        table.add_row(line(phase), *numbers)
    parts: list[RenderableType] = [table if standing.phases else Text("No episode has been played yet.")]
    if standing.last_invalid:
        parts.append(line(f"last invalid episode: {standing.last_invalid}", _STYLES["invalid"], TEXT_LIMIT))
    parts.append(Text(standing.go_on))
    return parts


def usage_lines(spending: Spending) -> list[RenderableType]:
    """Tabulate what the models used by role, the budget beneath; nothing where no model was asked."""
    if not spending.by_role:
        return []
    table = Table(title="What the models used", title_justify="left")
    for head in HEADS:
        if head != "model":  # beneath instead: the numbers fill 80 columns
            table.add_column(head, justify="left" if head == "role" else "right")
    for role, _, *numbers in spending.rows():
        table.add_row(line(role), *numbers)
    parts: list[RenderableType] = [table]
    parts += [line(f"{role} model: {model}", limit=TEXT_LIMIT) for role, model in spending.models.items()]
    if of_budget := spending.against_budget():
        parts.append(Text(f"budget of the last start: {of_budget}"))
    return parts


def _summary_cells(figures: Figures) -> list[str]:
    shares = (figures.before, figures.after, figures.remeasured)
    return [str(figures.tasks), str(figures.accepted), *(share_text(share) for share in shares)]


def share_text(share: Share | None) -> str:
    """Write a share with its count, and its interval beneath; a dash where it was not measured."""
    if share is None:
        return "-"
    low, high = share.interval
    return f"{percent(share.value)} ({share.count}/{share.total})\n{low * 100:.0f} to {high * 100:.0f}"


def flaw_table(figures: Figures, declared: Sequence[Weakness] = ()) -> Group:
    """Tabulate the weaknesses looked for; beneath, in one line, which declared ones were found."""
    table = _flaws_found(figures)
    if not declared:
        return Group(table)
    names = [flaw.flaw for flaw in figures.flaws if flaw.tasks]
    found = [weakness.name for weakness in declared if weakness.is_among(names)]
    missed = [weakness.name for weakness in declared if weakness.name not in found]
    return Group(
        table,
        paragraph(f"Of {len(declared)} weaknesses the policy declares, found: {', '.join(found) or 'none'};"),
        paragraph(f"not found: {', '.join(missed) or 'none'}."),
    )


def _flaws_found(figures: Figures) -> RenderableType:
    if not any(flaw.tasks or flaw.accepted for flaw in figures.flaws):
        return Text("No weakness stood out on any task." if figures.flaws else "No task was diagnosed.")
    table = Table(title="Weaknesses found", title_justify="left")
    for head in ("weakness", "diagnosed in", "accepted against it", "mean strength"):
        table.add_column(head)
    for flaw in figures.flaws:
        style = "" if flaw.tasks or flaw.accepted else "dim"
        cells = (counted(flaw.tasks, "task"), str(flaw.accepted), f"{flaw.mean_score:.2f}")
        table.add_row(line(words(flaw.flaw)), *cells, style=style)
    return table


def task_table(run: Run) -> Table:
    """Tabulate the tasks: what became of each, and its success rates."""
    table = Table(title="Tasks", title_justify="left")
    table.add_column("task", no_wrap=True, overflow="ellipsis", max_width=NAME_WIDTH)
    for head in ("status", "before", "after", "fresh", "weakness", "rounds"):
        table.add_column(head, min_width=8 if head == "status" else len(head))
    shared = len(common_folder([result.task for result in run.main.results]))
    for result in run.main.results:
        table.add_row(
            line(result.task[shared:]),
            Text(words(result.status), style=_STYLES[result.status]),
            rate_text(result.baseline),
            rate_text(deciding_measurement(result)),
            rate_text(result.remeasured) if result.remeasured else "-",
            line(words(flaw_of(result))) if flaw_of(result) else "-",
            str(len(by_round(result))),
        )
    return table


def common_folder(names: Sequence[str]) -> str:
    """Return the longest path, up to and with a slash, that all names begin with; empty where there is none."""
    folders = [name.split("/")[:-1] for name in names]
    shared = takewhile(lambda parts: len(set(parts)) == 1, zip(*folders, strict=False))
    return "".join(f"{parts[0]}/" for parts in shared)


def task_detail(result: TaskResult, band: Band) -> Group:
    """Show one task in full: diagnosis, rounds, and the source of the accepted component, or of the last one tried."""
    parts: list[RenderableType] = [
        line(result.task, "bold"),
        Text(words(result.status), style=_STYLES[result.status]),
        Text(f"before {rate_text(result.baseline)}, after {rate_text(deciding_measurement(result))}"),
    ]
    if result.reason:
        parts.append(paragraph(result.reason))
    if result.remeasured:
        held = "in" if band.holds(result.remeasured) else "outside"
        parts.append(Text(f"re-measured {rate_text(result.remeasured)}, {held} the band"))
    if result.diagnosis:
        parts.append(line(f"Diagnosis: {words(result.diagnosis.flaw)} ({result.diagnosis.direction})", "bold"))
        parts.append(paragraph(result.diagnosis.text))
        parts += [Padding(line(item, limit=TEXT_LIMIT), (0, 0, 0, 2)) for item in result.diagnosis.evidence]
    in_full = accepted_round(result) or (result.rounds[-1] if result.rounds else None)
    for attempts in by_round(result):
        parts += [_unpaid_attempt(entry, number) for number, entry in enumerate(attempts[:-1], 1)]
        parts.append(_round(attempts[-1], in_full=attempts[-1] is in_full))
    return Group(*parts)


def _unpaid_attempt(entry: Round, number: int) -> Padding:
    """Show in one line a candidate that failed a free check, so that its round went on with another one."""
    failed = next(
        (f"check {words(check.id)} failed" for check in entry.checks if not check.passed), words(entry.verdict)
    )
    what = f"Round {entry.number}, unpaid attempt {number}: {candidate_line(entry.candidate)}; {failed}"
    return Padding(line(what, "dim", TEXT_LIMIT), (1, 0, 0, 2))


def _round(entry: Round, *, in_full: bool) -> Padding:
    measured, candidate = entry.measured, entry.candidate
    won = f"{measured.successes} of {measured.valid} won" if measured else "no rollout paid for"
    head = f"Round {entry.number}: {entry.decision}, {won}, {words(entry.verdict)}"
    parts: list[RenderableType] = [line(head, "bold"), line(candidate_line(candidate), "dim", TEXT_LIMIT)]
    if candidate.rationale:
        parts.append(paragraph(candidate.rationale))
    if in_full:
        parts += [line(f"Stage: {call_text(action)}", limit=TEXT_LIMIT) for action in candidate.in_env_actions]
        if candidate.contract_source:
            parts.append(Syntax(visible(cut(candidate.contract_source, 20_000)), "python", word_wrap=True))
    parts += [
        line(f"check {words(check.id)} failed: {check.detail}", "red", TEXT_LIMIT)
        for check in entry.checks
        if not check.passed
    ]
    if entry.belief:
        parts.append(Text(belief_text(entry.belief)))
    if entry.feedback:
        parts.append(paragraph(f"feedback: {entry.feedback}", "italic"))
    return Padding(Group(*parts), (1, 0, 0, 2))


def trajectory_text(episode: Episode) -> Group:
    """Show one episode turn by turn, as the policy saw it, with what components did. Long ones lose their middle."""
    label, style = _OUTCOMES[episode.outcome.kind]
    why = f"{words(episode.outcome.reason)} {episode.outcome.detail}".strip()
    parts: list[RenderableType] = [line(f"{label}: {why}" if why else label, style, TEXT_LIMIT)]
    if episode.start:
        parts.append(paragraph(episode.start.shown.text, "dim"))
    steps = episode.steps
    if len(steps) <= STEPS_SHOWN:
        return Group(*parts, *(_turn(step) for step in steps))
    half = STEPS_SHOWN // 2
    gap = Text(f"... {len(steps) - 2 * half} turns cut ...", style="dim")
    return Group(*parts, *(_turn(step) for step in steps[:half]), gap, *(_turn(step) for step in steps[-half:]))


def _turn(step: TraceStep) -> Group:
    asked = call_text(step.action) if step.action else ("stop" if step.stopped else "no action named")
    parts: list[RenderableType] = [line(f"{step.step} > {asked}", "bold", TEXT_LIMIT)]
    if step.text:
        parts.append(Padding(paragraph(f"said: {step.text}", "italic"), (0, 0, 0, 4)))
    if step.blocked:
        parts.append(line(f"blocked: {step.blocked}", "red", TEXT_LIMIT))
    if step.refused:
        parts.append(line(f"refused: {step.refused}", "red", TEXT_LIMIT))
    parts += [
        line(f"{event.component} {words(event.kind)} {event.detail}", "magenta", TEXT_LIMIT) for event in step.events
    ]
    return Group(*parts, Padding(paragraph(step.shown.text, "dim"), (0, 0, 0, 4)))
