"""The report of a run as one HTML page that loads nothing, runs no script and shows every trace as text."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path

from envharness.core.files import write_atomically
from envharness.core.messages import counted
from envharness.report.document import document
from envharness.report.figures import distribution, distribution_panel, share_bar
from envharness.report.flaws import flaw_section
from envharness.report.markup import Html, join, table, tag
from envharness.report.numbers import Band, Figures
from envharness.report.run import DesignerRun, Run, load_run
from envharness.report.standing import standing_of, standing_section
from envharness.report.tasks import TaskPage, task_section
from envharness.report.text import cut, duration, percent, visible_line, words
from envharness.report.trajectory import caps_for
from envharness.report.usage import usage_section
from envharness.report.weaknesses import Weakness, declared_weaknesses
from envharness.rigger.summary import Share, deciding_measurement
from envharness.store.database import RunStore

_CONFIGURATION_LIMIT = 40_000
_STATUSES = ("accepted", "in_band_already", "rejected", "invalid")


def write_report(store: RunStore, path: Path) -> None:
    """Write the report of a rigging run to `path`, whole or not at all.

    Of a run without a finished task it says what there is. Raises StoreError where no run was begun, it cannot be read,
    or the file cannot be written.
    """
    run = load_run(store)
    page = render(run, declared_weaknesses(run.config.get("policy")))
    write_atomically(path, page.encode())


def render(run: Run, weaknesses: Sequence[Weakness] = ()) -> str:
    """Return the whole page. `weaknesses` are those the policy declares; none where it declares none."""
    title = f"{run.environment or 'rigging run'} · {run.main.designer}"
    return document(
        title,
        tag("a", "Skip to the tasks", class_="skip", href="#tasks") if run.main.results else None,
        _header(run),
        tag(
            "main",
            _results(run, weaknesses) if run.main.results else None,
            None if run.finished else standing_section(standing_of(run.store, run.spending)),
            usage_section(run.spending),
            _configuration(run),
        ),
    )


def _results(run: Run, weaknesses: Sequence[Weakness]) -> Html:
    return join(
        _headline(run),
        _distributions(run),
        _comparison(run),
        flaw_section(run.main.figures, weaknesses),
        _tasks(run),
    )


def _header(run: Run) -> Html:
    facts = [counted(run.main.figures.tasks, "task")]
    if run.policy:
        facts.append(f"policy {run.policy}{f' ({run.policy_model})' if run.policy_model else ''}")
    facts.append(f"designer {run.main.designer}{f' ({run.designer_model})' if run.designer_model else ''}")
    if isinstance(seed := run.config.get("seed"), int):
        facts.append(f"seed {seed}")
    return tag(
        "header",
        tag("p", "EnvRigger report", class_="kicker"),
        tag("h1", visible_line(run.environment, 120) or "Rigging run"),
        tag("p", visible_line(" · ".join(facts), 400), class_="facts"),
        None
        if run.finished
        else tag(
            "p",
            "This run has not finished: every share below is over the tasks done so far, not over all of them."
            if run.main.results
            else "This run has finished no task yet.",
            class_="notice",
            role="note",
        ),
    )


def _headline(run: Run) -> Html:
    figures, null = run.main.figures, run.null.figures if run.null else None
    rollouts, invalid, seconds = run.spend
    spent = duration(seconds) if seconds is not None else "not finished"
    tiles = [
        _tile(
            "In band, before → after",
            join(percent(figures.before.value), tag("span", " → ", class_="arrow"), percent(figures.after.value)),
            f"{figures.before.count} → {figures.after.count} of {figures.tasks} tasks, "
            f"by the {figures.deciding_rollouts} rollouts that decided",
            "lead",
        ),
        _null_tile(null),
        _fresh_tile(figures, null),
        _tile(
            "Spent",
            join(f"{rollouts:,}", tag("span", " rollouts", class_="unit")),
            " · ".join(part for part in (f"{invalid:,} invalid", spent, run.spending.in_short()) if part),
        ),
    ]
    return tag(
        "section",
        tag("h2", "Result"),
        tag("dl", tiles, class_="tiles"),
        tag("p", _caution(figures, run.band), class_="caution"),
        aria_label="result",
    )


def _tile(name: str, value: Html | str, detail: str, style: str = "") -> Html:
    return tag(
        "div",
        tag("dt", name),
        tag("dd", value, class_="value"),
        tag("dd", detail, class_="detail"),
        class_=f"tile {style}".strip(),
    )


def _null_tile(null: Figures | None) -> Html:
    if null is None:
        return _tile("Identity designer, after", "—", "not run: there is no null to hold this result against", "absent")
    detail = f"{null.after.count} of {null.tasks} tasks: a component that does nothing, luck and retries alone"
    return _tile("Identity designer, after", percent(null.after.value), detail)


def _fresh_tile(figures: Figures, null: Figures | None) -> Html:
    if figures.remeasured is None:
        return _tile("Re-measured", "—", "no fresh rollouts were asked for", "absent")
    detail = f"{figures.remeasured.count} of {figures.tasks} tasks, {figures.fresh_rollouts} fresh rollouts each"
    if null is not None and null.remeasured is not None:
        detail += f"; identity {percent(null.remeasured.value)}"
    return _tile("Re-measured", percent(figures.remeasured.value), detail)


def _caution(figures: Figures, band: Band) -> str:
    deciding = figures.deciding_rollouts
    text = (
        f"Shares are over all tasks of the run. A task won exactly half the time shows in band in "
        f"{percent(band.ceiling(deciding))} of batches of {deciding} rollouts, and a rule that accepts on what it "
        f"observes also accepts tasks that were only lucky"
    )
    if figures.remeasured is None:
        return f"{text}: without fresh rollouts, read the share after as an upper bound."
    return (
        f"{text}. Believe the re-measured share: its rollouts took no part in any decision "
        f"(ceiling {percent(band.ceiling(figures.fresh_rollouts))})."
    )


def _distributions(run: Run) -> Html:
    results, figures = run.main.results, run.main.figures
    panels = [
        distribution("Before", [result.baseline for result in results], run.band),
        distribution("After", [deciding_measurement(result) for result in results], run.band),
    ]
    notes = [f"{figures.deciding_rollouts} rollouts each"] * 2
    if figures.remeasured is not None:
        panels.append(distribution("Re-measured", [result.remeasured for result in results], run.band))
        notes.append(f"{figures.fresh_rollouts} fresh rollouts each")
    peak = max(panel.peak for panel in panels)
    drawn: list[Html] = []
    for number, (panel, note) in enumerate(zip(panels, notes, strict=True)):
        missing = f" · {panel.unmeasured} not measured" if panel.unmeasured else ""
        caption = tag("figcaption", tag("strong", panel.title), tag("span", f"{note}{missing}", class_="muted"))
        drawn.append(tag("figure", caption, distribution_panel(panel, run.band, peak, f"distribution-{number}")))
    return tag(
        "section",
        tag("h2", "Success rates of all tasks"),
        tag("div", drawn, class_="panels"),
        tag(
            "p",
            tag("span", class_="key inside"),
            f" tasks in the band [{run.band.low:g}, {run.band.high:g}] ",
            tag("span", class_="key outside"),
            " tasks outside it. The number on a bar is how many tasks it stands for.",
            class_="legend",
        ),
    )


def _comparison(run: Run) -> Html:
    """Tabulate every share with its interval, the null beneath."""
    runs = [run.main] if run.null is None else [run.main, run.null]
    heads = ("designer", "tasks", "accepted", "before", "after", "before, fresh", "re-measured", "accepted and held")
    return tag(
        "section",
        tag("h2", "Beside the null"),
        table(
            heads,
            [_designer_row(entry) for entry in runs],
            caption="Share of tasks in band, with 95 % Wilson intervals",
            class_="shares",
        ),
    )


def _designer_row(entry: DesignerRun) -> Html:
    figures = entry.figures
    shares = (figures.before, figures.after, figures.before_fresh, figures.remeasured, figures.accepted_remeasured)
    return tag(
        "tr",
        tag("th", visible_line(entry.designer, 80), scope="row"),
        tag("td", str(figures.tasks)),
        tag("td", str(figures.accepted)),
        [tag("td", _share_cell(share)) for share in shares],
    )


def _share_cell(share: Share | None) -> Html:
    if share is None or share.total == 0:
        return tag("span", "—", class_="muted")
    low, high = share.interval
    return join(
        tag("span", percent(share.value), class_="strong"),
        tag("span", f" {share.count}/{share.total} · {low * 100:.0f} to {high * 100:.0f}", class_="muted"),
        share_bar(share),
    )


def _tasks(run: Run) -> Html:
    """List the tasks, with a filter by status that needs no script."""
    results = run.main.results
    present = [status for status in _STATUSES if any(result.status == status for result in results)]
    switch: list[Html] = []
    for status in ("all", *present):
        count = sum(status in {"all", result.status} for result in results)
        name = f"filter-{status}"
        switch += [
            tag("input", type="radio", name="filter", id=name, checked=status == "all"),
            tag("label", f"{words(status)} {count}", for_=name),
        ]
    page = TaskPage(run.band, caps_for(len(results)), run.store)
    sections = [task_section(result, number, page) for number, result in enumerate(results)]
    return tag(
        "section",
        tag("h2", "Tasks"),
        tag(
            "p",
            "Ring: before. Disc: by the rollouts that decided. Diamond: by fresh rollouts. Open a task for its "
            "diagnosis, rounds, component and trajectories.",
            class_="legend",
        ),
        tag("div", switch, tag("div", sections, class_="list"), class_="filter"),
        id="tasks",
    )


def _configuration(run: Run) -> Html:
    text = cut(json.dumps(run.config, indent=2, ensure_ascii=False), _CONFIGURATION_LIMIT)
    return tag(
        "section",
        tag("h2", "Configuration"),
        tag("details", tag("summary", "What this run was started with"), tag("pre", text, tabindex=0), class_="plain"),
    )
