"""Python source and tool calls as readable, escaped markup."""

from __future__ import annotations

import json

from pydantic import JsonValue, TypeAdapter, ValidationError
from pygments import highlight  # pyright: ignore[reportUnknownVariableType]  pygments types its lexer argument loosely
from pygments.formatters import HtmlFormatter
from pygments.lexers.python import PythonLexer

from envharness.core.types import Action
from envharness.report.markup import Html, escape, tag
from envharness.report.text import cut, visible, words
from envharness.rigger.records import Candidate

SOURCE_LIMIT = 20_000
LINE_LIMIT = 400
CALL_LIMIT = 300
_ACTIONS = TypeAdapter(list[Action], config={"strict": True})


def python_source(source: str) -> Html:
    """Highlight Python source. Overlong lines and files are cut openly; unseen characters are written out first."""
    lines = (cut(line, LINE_LIMIT) for line in cut(source, SOURCE_LIMIT).split("\n"))
    text = visible("\n".join(lines)).strip("\n")
    # Pygments escapes what it is given, and gives back nothing but spans with classes of its own.
    code: str = highlight(text, PythonLexer(stripnl=False), HtmlFormatter(nowrap=True))
    return tag("pre", tag("code", Html(code)), class_="source", tabindex=0)


def call_text(action: Action, limit: int = CALL_LIMIT) -> str:
    """Write an action as a call, cut to `limit` characters. Nothing is made visible yet."""
    return cut(str(action), limit)


def value_text(value: JsonValue) -> str:
    """Write a component's parameter for a reader: actions as calls, text as it is, all else as JSON."""
    if isinstance(value, str):
        return value
    try:
        return "; ".join(map(call_text, _ACTIONS.validate_python(value)))
    except ValidationError:
        return json.dumps(value, ensure_ascii=False)


def candidate_line(candidate: Candidate) -> str:
    """Say in one line what a candidate is: where it comes from, how strong it is, what it answers and is made of."""
    facts = [f"template {candidate.template}" if candidate.template else ""]
    facts.append("" if candidate.magnitude is None else f"magnitude {candidate.magnitude:.3g}")
    facts.append("" if candidate.answers in {"", "none"} else f"answers {words(candidate.answers)}")
    facts += [f"{key} = {value_text(value)}" for key, value in candidate.parameters.items()]
    return " · ".join(cut(fact, CALL_LIMIT) for fact in facts if fact)


def call(action: Action | None) -> Html:
    """Show an action, or that the policy named none."""
    if action is None:
        return tag("span", "no action named", class_="muted")
    return tag("code", escape(call_text(action)), class_="call")


def action_list(actions: list[Action]) -> Html:
    """Show the actions of a Stage as a numbered list."""
    return tag("ol", [tag("li", call(action)) for action in actions], class_="actions")
