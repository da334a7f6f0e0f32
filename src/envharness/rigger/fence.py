"""A fence around text that is data: whatever the text holds, it cannot close the fence, so it stays data."""

from __future__ import annotations

import hashlib
import re

_MARK_DIGITS = 12
_TEMPLATE = re.compile(
    r"<(?=[|\uff5c]|</?SYS>>|/?(?:start_of_turn|end_of_turn|s|bos|eos)>)"
    r"|\[(?=/?(?:INST|SYSTEM_PROMPT|AVAILABLE_TOOLS|TOOL_[A-Z]+)\])"
)
"""How the marks begin by which chat templates tell turns apart: ChatML, Llama, Gemma, Mistral, DeepSeek."""
_CONTROL = re.compile(r"[\x00-\x08\x0b-\x1f\x7f-\x9f\u2028\u2029]")


def fence(text: str, name: str) -> str:
    """Return `text` between two lines that carry a mark which does not occur in it. `name` says what it is."""
    shown = _plain(text)
    mark = _mark_for(name, shown)
    return f"<<data {mark} {name}>>\n{shown}\n<<end {mark}>>"


def _mark_for(name: str, text: str) -> str:
    """Choose a mark from name and text, so that the same text is always fenced the same."""
    attempt = 0
    while True:
        mark = hashlib.sha256(f"{attempt}:{name}:{text}".encode(errors="replace")).hexdigest()[:_MARK_DIGITS]
        if mark not in text:
            return mark
        attempt += 1


def _plain(text: str) -> str:
    """Take out control characters, and break up what chat templates write between turns.

    Some servers read such markers wherever they stand, and a fence means nothing to a template.
    """
    return _TEMPLATE.sub(r"\g<0> ", _CONTROL.sub(" ", text))
