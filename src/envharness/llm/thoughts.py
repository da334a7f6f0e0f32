"""Thoughts that a model writes into its text between `<think>` and `</think>`: told apart from what it says."""

from __future__ import annotations

import re

_THOUGHT = re.compile(r"<think>(.*?)(?:</think>|\Z)", re.DOTALL | re.IGNORECASE)
_UNOPENED = re.compile(r"\A(?:(?!<think>).)*?</think>", re.DOTALL | re.IGNORECASE)


def split_thought(text: str) -> tuple[str, str]:
    """Return the `<think>` parts of a text, and the rest. A part that is never closed goes on to the end.

    A model whose prompt opened the thought for it writes only the end tag; all before that is thought.
    """
    unopened = _UNOPENED.match(text)
    found: list[str] = []
    if unopened:
        found.append(unopened[0][: -len("</think>")].strip())
        text = text[unopened.end() :]
    found += [part.strip() for part in _THOUGHT.findall(text)]
    return "\n".join(part for part in found if part), _THOUGHT.sub("", text).strip()
