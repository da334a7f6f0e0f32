"""HTML and SVG built from Python, where a string is always text and only `Html` is markup."""

from __future__ import annotations

import html
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from envharness.report.text import UNSEEN, name_unseen, visible


@dataclass(frozen=True, slots=True)
class Html:
    """Markup that is known to be safe. Made by `tag` and by nothing that has seen a trace."""

    source: str

    def __str__(self) -> str:
        return self.source


Child = Html | str | Iterable[Html | str] | None
Attribute = str | int | float | bool | None
_VOID = frozenset({"br", "hr", "input", "link", "meta", "wbr"})


def escape(text: str) -> Html:
    """Return `text` as markup that shows exactly it; unseen characters are written out and set apart."""
    escaped = html.escape(text)
    return Html(UNSEEN.sub(lambda match: f'<b class="unseen">{name_unseen(match[0])}</b>', escaped))


def join(*children: Child) -> Html:
    """Put markup and text one after the other. None is left out."""
    parts: list[str] = []
    for child in children:
        if child is None:
            continue
        if isinstance(child, Html):
            parts.append(child.source)
        elif isinstance(child, str):
            parts.append(escape(child).source)
        else:
            parts.append(join(*child).source)
    return Html("".join(parts))


def tag(name: str, /, *children: Child, **attributes: Attribute) -> Html:
    """Return an element. Attribute names lose a trailing `_`, and `_` inside becomes `-`; None and False are left out.

    Tag and attribute names come from code, never from data.
    """
    opening = "".join(_attribute(key, value) for key, value in attributes.items())
    if name in _VOID:
        return Html(f"<{name}{opening}>")
    return Html(f"<{name}{opening}>{join(*children)}</{name}>")


def table(heads: Sequence[str], rows: Child, *, caption: str = "", class_: str | None = None) -> Html:
    """Return a table with one row of heads, which scrolls by itself where the page is too narrow for it."""
    return tag(
        "div",
        tag(
            "table",
            tag("caption", caption) if caption else None,
            tag("thead", tag("tr", [tag("th", head, scope="col") for head in heads])),
            tag("tbody", rows),
            class_=class_,
        ),
        class_="scroll",
        tabindex=0,
    )


def _attribute(key: str, value: Attribute) -> str:
    if value is None or value is False:
        return ""
    name = key.rstrip("_").replace("_", "-")
    if value is True:
        return f" {name}"
    text = f"{value:g}" if isinstance(value, float) else str(value)
    return f' {name}="{html.escape(visible(text))}"'
