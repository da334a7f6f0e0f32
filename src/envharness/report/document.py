"""The frame of every page: one HTML file that loads nothing, runs no script and carries its own style."""

from __future__ import annotations

from importlib.resources import files

from envharness.report.markup import Child, Html, tag
from envharness.report.text import visible_line

# Escaping keeps a trace from being markup; this keeps the page harmless even if that ever failed.
_POLICY = "default-src 'none'; style-src 'unsafe-inline'; img-src data:; base-uri 'none'; form-action 'none'"
TITLE_LIMIT = 120


def document(title: str, *body: Child) -> str:
    """Return a whole page with `body` above the footer. `title` may come from a trace."""
    style = files("envharness.report").joinpath("style.css").read_text(encoding="utf-8")
    head = tag(
        "head",
        tag("meta", charset="utf-8"),
        tag("meta", http_equiv="Content-Security-Policy", content=_POLICY),
        tag("meta", name="viewport", content="width=device-width, initial-scale=1"),
        tag("meta", name="color-scheme", content="light dark"),
        tag("link", rel="icon", href="data:,"),
        tag("title", f"{visible_line(title, TITLE_LIMIT)} · envharness"),
        tag("style", Html(style)),
    )
    footer = tag(
        "footer", tag("p", "Written by envharness. This page is one file: it loads nothing and runs no script.")
    )
    return f"<!doctype html>\n{tag('html', head, tag('body', *body, footer), lang='en')}\n"
