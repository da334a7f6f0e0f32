"""Text from a trace, made harmless to read: unseen characters are written out, long text is cut openly."""

from __future__ import annotations

import re

# Controls, formats (bidi, zero-width, soft hyphen, tags), surrogates, line and paragraph separators, variation
# selectors but the two of emoji, fillers that draw nothing. Written out, because looking at the
# category of each character costs a second a megabyte. Newline and tab stay: they only lay the text out.
_UNSEEN_RANGES = (
    "\x00-\x08\x0b-\x1f\x7f-\x9f\xad\u034f\u0600-\u0605\u061c\u06dd\u070f\u0890\u0891\u08e2\u115f\u1160\u17b4\u17b5\u180b-\u180f"
    "\u200b-\u200f\u2028-\u202e\u2060-\u206f\u3164\ud800-\udfff\ufe00-\ufe0d\ufeff\uffa0\ufff0-\ufffb\ufffe\uffff"
    "\U000110bd\U000110cd\U00013430-\U0001345f\U0001bca0-\U0001bca3\U0001d173-\U0001d17a\U000e0000-\U000e0fff"
)
UNSEEN = re.compile(f"[{_UNSEEN_RANGES}]+")
"""A run of characters that a reader would not see, or that would act on a terminal or on the text around them."""

_CONTROL_PICTURES = 0x2400
_SPACE, _DELETE = 0x20, 0x7F


def name_unseen(characters: str) -> str:
    """Write each of `characters` so that it is seen: control pictures (`␛`) for ASCII, `⟦U+202E⟧` for the rest."""
    return "".join(_name_one(ord(character)) for character in characters)


def _name_one(code: int) -> str:
    if code < _SPACE:
        return chr(_CONTROL_PICTURES + code)
    if code == _DELETE:
        return "␡"
    return f"⟦U+{code:04X}⟧"


def visible(text: str) -> str:
    """Return `text` with every unseen character written out; newlines and tabs stay."""
    return UNSEEN.sub(lambda match: name_unseen(match[0]), text)


def visible_line(text: str, limit: int = 0) -> str:
    """Return `text` on one line: newlines and tabs are written out too. `limit` characters at most; 0 is no limit."""
    line = visible(cut(text, limit) if limit else text)
    return line.replace("\n", "␊").replace("\t", "␉")


def cut(text: str, limit: int) -> str:
    """Return `text`, or its head (two thirds of `limit`) and tail, with a note between that says how much is gone."""
    if len(text) <= limit:
        return text
    head = limit * 2 // 3
    tail = limit - head
    gone = len(text) - limit
    return f"{text[:head]} ⋯ {gone:,} characters cut ⋯ {text[len(text) - tail :]}"


def duration(seconds: float) -> str:
    """Write a time span for a reader: `850 ms`, `12.3 s`, `4 min 05 s`, `2 h 03 min`."""
    if seconds < 1:
        return f"{seconds * 1000:.0f} ms"
    if seconds < 60:  # noqa: PLR2004  seconds in a minute
        return f"{seconds:.1f} s"
    minutes, rest = divmod(round(seconds), 60)
    if minutes < 60:  # noqa: PLR2004  minutes in an hour
        return f"{minutes} min {rest:02d} s"
    hours, minutes = divmod(minutes, 60)
    return f"{hours} h {minutes:02d} min"


def percent(value: float) -> str:
    """Write a share: `85 %`, with a no-break space."""
    return f"{value * 100:.0f}\N{NO-BREAK SPACE}%"


def words(identifier: str) -> str:
    """Write an identifier such as `in_band_already` as words."""
    return identifier.replace("_", " ")
