"""Thoughts that a model writes into its text between `<think>` and `</think>`: told apart from what it says."""

from __future__ import annotations

import re

_THOUGHT = re.compile(r"<think>(.*?)(?:</think>|\Z)", re.DOTALL | re.IGNORECASE)
_TAG = re.compile(r"</?think>", re.IGNORECASE)


def split_thought(text: str) -> tuple[str, str]:
    """Return the `<think>` parts of a text, and the rest. A part that is never closed goes on to the end.

    A model whose prompt opened the thought for it writes only the end tag; all before that is thought.
    """
    tag = _TAG.search(text)
    found: list[str] = []
    if tag and tag[0].startswith("</"):
        found.append(text[: tag.start()].strip())
        text = text[tag.end() :]
    found += [part.strip() for part in _THOUGHT.findall(text)]
    return "\n".join(part for part in found if part), _THOUGHT.sub("", text).strip()
