"""A screen taken apart into labelled lines, sections under a heading, and the running text between them. Pure.

`label_of`, `parts_of` and `without` also run inside the hook that hides a field, as source: they use `re` and builtins.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass

from pydantic import JsonValue

from envharness.core.types import Observation

RUNNING_TEXT = ""
"""The label of whatever stands under no label."""
RECURRING = 0.5
"""Share of the screens that must show a label or a key for it to be a field of the suite."""


@dataclass(frozen=True)
class ScreenField:
    """One thing that screens show: in the text under a label, in the data under keys, or in both."""

    name: str
    label: str | None
    """As `label_of` writes it, `RUNNING_TEXT` for what has none; None where the text does not show it."""
    keys: tuple[str, ...] = ()
    """Top-level keys of the data that say the same."""


def label_of(line: str) -> str:
    """Return the label that a line begins with, in small letters, or nothing: `moves` of `Moves (2): up, up`.

    Forty characters at most: what is longer is a sentence.
    """
    match = re.match(r"([A-Za-z][A-Za-z' ]{0,39}?) ?(?:\([^()]*\))?:(?:\s|$)", line)
    return " ".join(match[1].lower().split()) if match else ""


def parts_of(text: str, labels: list[str]) -> list[tuple[str, list[str]]]:
    """Split a text into its parts, in order: a label of `labels` (empty for running text) and the lines under it.

    A line that is only a label is a heading: what follows belongs to it, up to an empty line or the next label.
    """
    parts: list[tuple[str, list[str]]] = []
    heading = False
    for line in text.split("\n"):
        label = label_of(line)
        if label in labels:
            parts.append((label, [line]))
            heading = line.rstrip().endswith(":")
        elif heading and line.strip():
            parts[-1][1].append(line)
        else:
            heading = False
            if not parts or parts[-1][0]:
                parts.append(("", []))
            parts[-1][1].append(line)
    return parts


def without(text: str, labels: list[str], hidden: str) -> str:
    """Return a text without the parts under the label `hidden`; the text itself where it has none."""
    parts = parts_of(text, labels)
    kept = [lines for label, lines in parts if label != hidden]
    if len(kept) == len(parts):
        return text
    return re.sub("\n\n\n+", "\n\n", "\n".join(line for lines in kept for line in lines)).strip("\n")


def labels_in(screens: Sequence[str]) -> list[str]:
    """Return the labels that at least half of the screens show, in order of their first appearance."""
    shown = Counter(label for text in screens for label in {label_of(line) for line in text.split("\n")})
    order = dict.fromkeys(label_of(line) for text in screens for line in text.split("\n"))
    return [label for label in order if label and shown[label] >= RECURRING * len(screens)]


def fields_of(observations: Sequence[Observation]) -> list[ScreenField]:
    """Return the fields of the screens of a suite: labels, the running text, then keys that no text tells.

    A key of the data belongs to the label whose text says the same in more than half of the screens where the key has
    something to say, so that hiding one without the other would give it away.
    """
    screens = [observation.text for observation in observations]
    labels = labels_in(screens)
    running = [text for text in screens if _running(text, labels).strip()]
    shown = [*labels, *([RUNNING_TEXT] if running and len(running) >= RECURRING * len(screens) else [])]
    keys = Counter(key for observation in observations for key in observation.data)
    recurring = sorted(key for key, count in keys.items() if count >= RECURRING * len(screens))
    homes = {key: _home(key, shown, labels, observations) for key in recurring}
    told = [
        ScreenField(label or "running text", label, tuple(key for key in recurring if homes[key] == label))
        for label in shown
    ]
    return told + [ScreenField(f"data {key}", None, (key,)) for key in recurring if homes[key] is None]


def _home(key: str, shown: Sequence[str], labels: list[str], observations: Sequence[Observation]) -> str | None:
    """Return the label under which the text says what `key` says, or None where none does."""
    said = Counter[str]()
    spoke = 0
    for observation in observations:
        words = _words(_flat(observation.data.get(key)))
        if not words:
            continue
        spoke += 1
        parts = parts_of(observation.text, labels)
        for label in shown:
            lines = [line for found, lines in parts if found == label for line in lines]
            if _says("\n".join(lines), words, labelled=bool(label)):
                said[label] += 1
    best = max(shown, key=lambda label: (said[label], -shown.index(label)), default=None)
    return best if best is not None and said[best] > RECURRING * spoke else None


def _says(text: str, words: list[str], *, labelled: bool) -> bool:
    """Whether what stands under a label is exactly these words, or the running text holds them in one piece."""
    if labelled:
        return _words(text.partition(":")[2]) == words
    return f" {' '.join(words)} " in f" {' '.join(_words(text))} "


def _running(text: str, labels: list[str]) -> str:
    return "\n".join(line for label, lines in parts_of(text, labels) if not label for line in lines)


def _words(text: str) -> list[str]:
    return re.findall(r"\w+", text.lower())


def _flat(value: JsonValue) -> str:
    """Return a JSON value as its words, in order; nothing for null."""
    if isinstance(value, dict):
        return " ".join(f"{key} {_flat(item)}" for key, item in value.items())
    if isinstance(value, list):
        return " ".join(map(_flat, value))
    return "" if value is None else str(value)
