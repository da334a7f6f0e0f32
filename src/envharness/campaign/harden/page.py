"""The report of a hardening run as one HTML page: the matrix, every variant task by task, the configuration."""

from __future__ import annotations

import json

from envharness.campaign.harden import wording
from envharness.campaign.harden.records import CaseResult, HardenResult, Row
from envharness.core.messages import counted
from envharness.core.types import JsonDict
from envharness.report.document import document
from envharness.report.figures import share_bar
from envharness.report.markup import Html, join, table, tag
from envharness.report.text import cut, visible_line, words
from envharness.rigger.summary import Share

_TEXT_LIMIT = 400
_CONFIGURATION_LIMIT = 40_000
_HEADS = ("variant", "tasks", "as it is", "in the variant", "change in points", "turns", "lost by")
_CAUTION = (
    "Rates are over the tasks in which a variant was played. Intervals are 95 %: where nothing changed, one in twenty "
    "misses. Unaffected: it changes nothing on the recorded steps. Unsolvable: no known win verifies in it, so losses "
    "in it would say nothing about the policy."
)


def render(result: HardenResult, config: JsonDict) -> str:
    """Return the whole page."""
    title = f"{result.environment} · {result.policy} · hardened"
    return document(
        title,
        tag(
            "header",
            tag("p", "Hardening report", class_="kicker"),
            tag("h1", visible_line(result.environment, _TEXT_LIMIT)),
            tag("p", visible_line(_facts(result), _TEXT_LIMIT), class_="facts"),
            [tag("p", visible_line(note, _TEXT_LIMIT), class_="notice", role="note") for note in wording.notes(result)],
        ),
        tag("main", _matrix(result), _by_task(result), _variants(result), _configuration(config)),
    )


def _facts(result: HardenResult) -> str:
    each = counted(result.rollouts_each, "rollout")
    tasks, rollouts = counted(len(result.tasks), "task"), counted(result.rollouts, "rollout")
    return f"{tasks} · policy {result.policy} · {each} each · seed {result.seed} · {rollouts} in all"


def _matrix(result: HardenResult) -> Html:
    whole = tag(
        "tr",
        tag("th", "as it is", scope="row"),
        tag("td", str(len(result.tasks))),
        tag("td", _share(result.baseline.won, result.baseline.valid, wording.rate(result.baseline))),
        [tag("td", "—") for _ in range(4)],
    )
    return tag(
        "section",
        tag("h2", "What it leans on"),
        tag("p", visible_line(wording.headline(result), _TEXT_LIMIT), class_="prose"),
        table(_HEADS, [whole, *map(_row, result.rows)], caption="Success with and without", class_="shares"),
        tag("p", _CAUTION, class_="caution"),
    )


def _row(row: Row) -> Html:
    name = tag("th", tag("a", visible_line(row.variant.id, _TEXT_LIMIT), href=f"#{_anchor(row)}"), scope="row")
    if row.finding == "not_played":
        return tag("tr", name, tag("td", wording.where(row)), [tag("td", "—") for _ in range(5)])
    cells: list[Html | str] = [
        wording.where(row),
        _share(row.baseline.won, row.baseline.valid, wording.rate(row.baseline)),
        _share(row.played.won, row.played.valid, wording.rate(row.played)),
        join(tag("span", wording.change(row), class_="strong"), f" {words(row.finding)}"),
        wording.steps(row),
        wording.shift(row),
    ]
    return tag("tr", name, [tag("td", cell) for cell in cells])


def _share(won: int, valid: int, text: str) -> Html:
    return join(
        tag("span", text, class_="strong"), tag("span", f" {won}/{valid}", class_="muted"), share_bar(Share(won, valid))
    )


def _by_task(result: HardenResult) -> Html:
    """Tabulate every variant of every task."""
    found = {(case.task, case.variant): case for case in result.cases}
    heads = ("task", "as it is", *(row.variant.id for row in result.rows))
    rows = [
        tag(
            "tr",
            tag("th", visible_line(entry.task, _TEXT_LIMIT), scope="row"),
            tag("td", wording.rate(entry.tally)),
            [tag("td", _cell(found.get((entry.task, row.variant.id)))) for row in result.rows],
        )
        for entry in result.tasks
    ]
    return tag("section", tag("h2", "Task by task"), table(heads, rows, caption="Success rate"))


def _cell(case: CaseResult | None) -> Html | str:
    if case is None:
        return "—"
    return wording.rate(case.played) if case.status == "played" else tag("span", words(case.status), class_="muted")


def _variants(result: HardenResult) -> Html:
    """Describe each variant, and say of each task what was done to it and what came of it."""
    parts: list[Html] = []
    for row in result.rows:
        cases = [case for case in result.cases if case.variant == row.variant.id]
        items = [
            tag("li", visible_line(f"{case.task}: {words(case.status)}. {case.detail}", 2 * _TEXT_LIMIT))
            for case in cases
        ]
        parts.append(
            tag(
                "details",
                tag("summary", visible_line(f"{row.variant.id}: {row.variant.what}", _TEXT_LIMIT)),
                tag("ul", items, class_="evidence"),
                class_="plain",
                id=_anchor(row),
            )
        )
    return tag("section", tag("h2", "What was done to each task"), parts)


def _anchor(row: Row) -> str:
    return "variant-" + "".join(sign if sign.isalnum() else "-" for sign in row.variant.id)


def _configuration(config: JsonDict) -> Html:
    text = cut(json.dumps(config, indent=2, ensure_ascii=False), _CONFIGURATION_LIMIT)
    body = tag(
        "details", tag("summary", "What this run was started with"), tag("pre", text, tabindex=0), class_="plain"
    )
    return tag("section", tag("h2", "Configuration"), body)
