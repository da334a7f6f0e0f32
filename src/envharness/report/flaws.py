"""Which weaknesses of the policy the run found, and which of those the policy is known to have it missed."""

from __future__ import annotations

from collections.abc import Sequence

from envharness.core.messages import counted
from envharness.report.markup import Html, join, table, tag
from envharness.report.numbers import Figures, FlawCount
from envharness.report.text import cut, visible_line, words
from envharness.report.weaknesses import Weakness

NAME_LIMIT = 80


def flaw_section(figures: Figures, weaknesses: Sequence[Weakness]) -> Html:
    """Tabulate the flaws looked for; beneath, the weaknesses the policy declares and whether each was found."""
    found = sum(flaw.tasks > 0 for flaw in figures.flaws)
    looked = f"{found} of the {len(figures.flaws)} weaknesses that were looked for stood out on at least one task."
    return tag(
        "section",
        tag("h2", "Weaknesses found"),
        tag("p", looked if figures.flaws else "No task was diagnosed.", class_="legend"),
        _table(figures) if any(flaw.tasks or flaw.accepted for flaw in figures.flaws) else None,
        _declared(figures, weaknesses) if weaknesses else None,
    )


def _table(figures: Figures) -> Html:
    heads = ("weakness", "diagnosed in", "accepted against it", "mean strength")
    most = max(flaw.tasks for flaw in figures.flaws)
    return table(heads, [_row(flaw, most) for flaw in figures.flaws], class_="flaws")


def _row(flaw: FlawCount, most: int) -> Html:
    meter = tag("span", class_="meter", style=f"--part:{flaw.tasks / max(most, 1):.3f}", aria_hidden="true")
    return tag(
        "tr",
        tag("th", words(visible_line(flaw.flaw, NAME_LIMIT)), scope="row"),
        tag("td", meter, counted(flaw.tasks, "task")),
        tag("td", str(flaw.accepted)),
        tag("td", f"{flaw.mean_score:.2f}"),
        class_="" if flaw.tasks or flaw.accepted else "muted",
    )


def _declared(figures: Figures, weaknesses: Sequence[Weakness]) -> Html:
    names = [flaw.flaw for flaw in figures.flaws if flaw.tasks]
    items = [(weakness, weakness.is_among(names)) for weakness in weaknesses]
    return join(
        tag("h3", "What the policy is known to do"),
        tag("p", _declared_summary(items), class_="legend"),
        tag(
            "ul",
            [
                tag(
                    "li",
                    tag("span", "found" if found else "not found", class_=f"badge {'good' if found else 'neutral'}"),
                    " ",
                    tag("strong", words(cut(weakness.name, NAME_LIMIT))),
                    f": {cut(weakness.description, 400)}",
                    None if weakness.has_template else tag("span", " (no template is written for it)", class_="muted"),
                )
                for weakness, found in items
            ],
            class_="declared",
        ),
    )


def _declared_summary(items: Sequence[tuple[Weakness, bool]]) -> str:
    found = sum(found for _, found in items)
    text = f"{found} of the {len(items)} weaknesses that the policy declares showed in a diagnosis."
    if any(not weakness.shows_as for weakness, _ in items):
        text += " Where the policy does not say what a weakness shows as, names are compared, which may miss some."
    return text
