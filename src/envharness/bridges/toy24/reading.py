"""Reading a screen as a person would: target, numbers, hints and bad news from whatever text is shown."""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass
from fractions import Fraction

from envharness.bridges.toy24.arithmetic import Operation, read_number

_NUMBER = r"-?[0-9]+(?:/[0-9]+)?"
_HAND = re.compile(r"numbers?(?: left)?(?: \((?P<count>[^)\n]*)\))?(?::| are) *(?P<list>[^\n]*)", re.IGNORECASE)
_LIST = re.compile(rf"(?:among|:) (?P<list>(?:{_NUMBER}|\[[^\]\n]*\])(?:, [^\n,]+)+)")
_TARGET = re.compile(r"(?:target\D{0,12}|make )(?P<target>[0-9]{1,40})", re.IGNORECASE)
_BAD_NEWS = re.compile(
    r"nothing happens|fail|block|refus|error|denied|forbid|not allowed|cannot|can't|unable|unavailable|try again"
    r"|no longer|must (?:first|not)|there is no\b|has no effect|limit",
    re.IGNORECASE,
)
_HINT = re.compile(r"\bhints?\b[^:\n]{0,40}:(?P<body>[^\n]*)|\badvice:(?P<advice>[^\n]*)", re.IGNORECASE)
# A minus or a slash without spaces belongs to a number.
_INFIX = re.compile(
    rf"(?P<left>{_NUMBER})(?: *(?=[+*\u00d7\u00f7])| +(?=[-/] ))(?P<operation>[-+*/\u00d7\u00f7]) *(?P<right>{_NUMBER})"
)
_IS = r"[\s\"':=(]+"
_FIELDS = re.compile(
    rf"left{_IS}(?P<left>{_NUMBER}).*?operation{_IS}(?P<operation>[-+*/\u00d7\u00f7]).*?right{_IS}(?P<right>{_NUMBER})"
)
_WORDS: dict[str, Operation] = {
    "add": "+", "plus": "+", "sum": "+", "subtract": "-", "minus": "-", "difference": "-", "times": "*",
    "multiply": "*", "multiplication": "*", "product": "*", "divide": "/", "division": "/", "quotient": "/",
    "addition": "+", "subtraction": "-",
}  # fmt: skip
_SIGNS: dict[str, Operation] = {"+": "+", "-": "-", "*": "*", "/": "/", "\u00d7": "*", "\u00f7": "/"}


@dataclass(frozen=True, slots=True)
class Hint:
    """What a line of advice says: a move, only an operation, or to take moves back."""

    left: Fraction | None = None
    operation: Operation | None = None
    right: Fraction | None = None
    resets: bool = False


@dataclass(frozen=True, slots=True)
class Reading:
    """What could be read from one screen."""

    target: Fraction | None
    """None where no target is shown."""
    numbers: tuple[Fraction, ...] | None
    """The numbers shown, rising; None where no list of numbers is to be seen."""
    missing: int
    """How many more numbers there are than could be read, as far as the text says."""
    bad_news: bool
    """Whether the first lines speak of a refusal or a failure."""
    tools_named: tuple[str, ...]
    """Tools that the bad news mentions."""
    hints: tuple[Hint, ...]
    moved: bool
    """Whether the text says that moves were made."""


def read(text: str, tools: Iterable[str]) -> Reading:
    """Read a screen. Never fails: what is not there is None, 0 or empty."""
    head = text.rsplit("Target:", maxsplit=1)[0]
    bad_news = _BAD_NEWS.search(head) is not None
    numbers, missing = _read_hand(text)
    target = _TARGET.search(text)
    return Reading(
        target=Fraction(target["target"]) if target else None,
        numbers=numbers,
        missing=missing,
        bad_news=bad_news,
        tools_named=tuple(tool for tool in tools if bad_news and tool in head),
        hints=tuple(_read_hint(match["body"] or match["advice"] or "") for match in _HINT.finditer(text)),
        moved=re.search(r"moves made: (?!none)\S", text, re.IGNORECASE) is not None,
    )


def _read_hand(text: str) -> tuple[tuple[Fraction, ...] | None, int]:
    """Return the numbers of the last whole list that is shown, else of the fullest, and how many it lacks."""
    fullest: tuple[tuple[Fraction, ...], int] | None = None
    whole: tuple[tuple[Fraction, ...], int] | None = None
    for match in sorted([*_HAND.finditer(text), *_LIST.finditer(text)], key=lambda match: match.start("list")):
        parts = [part.strip(" .;\r") for part in match["list"].split(",")]
        numbers = [number for number in map(read_number, parts) if number is not None]
        count = match.groupdict().get("count") or ""
        # More than a puzzle can hold is not a count but a misreading.
        missing = min(max((int(count) if count.isdecimal() else len(parts)) - len(numbers), 0), 9)
        if not numbers:
            continue
        found = (tuple(sorted(numbers)), missing)
        if missing == 0:
            whole = found
        if fullest is None or len(numbers) > len(fullest[0]):
            fullest = found
    return whole or fullest or (None, 0)


def _read_hint(body: str) -> Hint:
    """Read a line of advice leniently: `8 * 3`, `8 and 3 with *`, `left=8 operation=* right=3`, `try division`."""
    if re.search(r"\breset", body, re.IGNORECASE):
        return Hint(resets=True)
    for form in (_FIELDS, _INFIX):
        match = form.search(body)
        if match:
            return Hint(read_number(match["left"]), _SIGNS[match["operation"]], read_number(match["right"]))
    operation = _read_operation(body)
    numbers = [read_number(text) for text in re.findall(_NUMBER, body)]
    if operation is not None and len(numbers) == 2:  # noqa: PLR2004  a move joins two numbers
        return Hint(numbers[0], operation, numbers[1])
    return Hint(operation=operation)


def _read_operation(body: str) -> Operation | None:
    """Return the operation that a text names by word or by a sign standing alone."""
    for word in re.findall(r"[a-z]+", body.lower()):
        for name, operation in _WORDS.items():
            if word == name or (word.startswith(name) and len(name) > 3):  # noqa: PLR2004  "divides", not "added"
                return operation
    sign = re.search(r"(?<![\w-])[-+*/\u00d7\u00f7](?![\w-])", body)
    return _SIGNS[sign[0]] if sign else None
