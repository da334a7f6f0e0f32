"""Reading a household screen as a person would: goal, what is where, bad news and hints from whatever text is shown."""

from __future__ import annotations

import re
from dataclasses import dataclass

_THING = r"[a-z]+ \d+"
_NAMES = re.compile(rf"\b{_THING}\b")
_GOAL_LINE = re.compile(r"your task is to: (?P<goal>[^\n]*)", re.IGNORECASE)
_GOALS: tuple[re.Pattern[str], ...] = (
    re.compile(r"(?:examine|look at) (?:the |a |some )?(?P<item>\w+) (?:with|under) (?:the |a )?(?P<lamp>\w+)"),
    re.compile(r"(?:find|put) (?P<two>two) (?P<item>\w+)(?: and put them)? (?:in|on) (?:the |a )?(?P<place>\w+)"),
    re.compile(
        r"(?P<verb>clean|heat|cool) (?:some|a|the) (?P<item>\w+) and put it (?:in|on) (?:the |a )?(?P<place>\w+)"
    ),
    re.compile(r"put (?:a|some|the) (?:(?P<state>clean|hot|cool) )?(?P<item>\w+) (?:in|on) (?:the |a )?(?P<place>\w+)"),
)
_VERB_OF = {"clean": "clean", "hot": "heat", "cool": "cool"}
_ROOM = re.compile(r"looking quickly around you, you see (?P<list>[^\n]*)", re.IGNORECASE)
_CONTENTS = re.compile(
    rf"(?:on the (?P<on>{_THING}), you see|the (?P<into>{_THING}) is open\. in it, you see) (?P<list>[^.\n]*)",
    re.IGNORECASE,
)
_CLOSED = re.compile(rf"the (?P<place>{_THING}) is closed", re.IGNORECASE)
_CHANGES: dict[str, re.Pattern[str]] = {
    "go": re.compile(rf"you arrive at (?P<place>{_THING})", re.IGNORECASE),
    "open": re.compile(rf"you open the (?P<place>{_THING})", re.IGNORECASE),
    "take": re.compile(rf"you pick up the (?P<item>{_THING}) from the (?P<place>{_THING})", re.IGNORECASE),
    "move": re.compile(rf"you move the (?P<item>{_THING}) to the (?P<place>{_THING})", re.IGNORECASE),
    "prepare": re.compile(
        rf"you (?:clean|heat|cool) the (?P<item>{_THING}) using the (?P<place>{_THING})", re.IGNORECASE
    ),
    "use": re.compile(rf"you turn on the (?P<item>{_THING})", re.IGNORECASE),
}
_BAD_NEWS = re.compile(
    r"nothing happens|fail|block|refus|error|denied|forbid|not allowed|cannot|can't|unable|unavailable|try again"
    r"|no longer|must (?:first|not)|has no effect|limit|not now",
    re.IGNORECASE,
)
_HINT = re.compile(
    r"^\W*(?:hints?|tips?|advice|remember|reminder)\b[^:\n]{0,60}:(?P<body>[^\n]*)", re.IGNORECASE | re.MULTILINE
)
_COMMAND = (
    rf"(?:go to {_THING}|(?:open|close|use|examine) {_THING}|take {_THING} from {_THING}|move {_THING} to {_THING}"
    rf"|(?:clean|heat|cool|slice) {_THING} with {_THING}|look|inventory|help)"
)
COMMAND = re.compile(rf"\b{_COMMAND}\b")
_SHOWN_COMMAND = re.compile(rf"^- (?P<command>{_COMMAND})[ \r]*$", re.MULTILINE)


@dataclass(frozen=True, slots=True)
class Goal:
    """What is to be done: look at an item under a lamp, or put one or two of them, maybe prepared, in a place."""

    item: str
    place: str = ""
    """Kind of receptacle; empty where the item is to be looked at."""
    lamp: str = ""
    verb: str = ""
    """clean, heat or cool; empty where nothing is to be done to the item."""
    count: int = 1


@dataclass(frozen=True, slots=True)
class Change:
    """What the text says has happened."""

    kind: str
    """go, open, take, move, prepare or use."""
    item: str = ""
    place: str = ""


@dataclass(frozen=True, slots=True)
class Reading:
    """What could be read from one screen."""

    goal: Goal | None
    """None where no goal is shown, or none that is understood."""
    room: tuple[str, ...]
    """Receptacles named as being in the room, or in a command to go there."""
    contents: dict[str, tuple[str, ...]]
    """Receptacle → what is said to be on or in it, in order."""
    closed: tuple[str, ...]
    change: Change | None
    bad_news: str
    """The first lines, where they speak of a refusal or a failure; else empty."""
    hints: tuple[str, ...]
    commands: tuple[str, ...]
    """The admissible commands that are shown; perhaps not all there are."""


def read(text: str) -> Reading:
    """Read a screen. Never fails: what is not there is None or empty."""
    head = _before_the_goal(text)
    shown = tuple(match["command"] for match in _SHOWN_COMMAND.finditer(text))
    room = [name for match in _ROOM.finditer(text) for name in _NAMES.findall(match["list"])]
    room += [command[len("go to ") :] for command in shown if command.startswith("go to ")]
    contents = {
        (match["on"] or match["into"]).lower(): tuple(_NAMES.findall(match["list"]))
        for match in _CONTENTS.finditer(head)
    }
    hints = tuple(match["body"].strip() for match in _HINT.finditer(text))
    return Reading(
        goal=read_goal(text),
        room=tuple(dict.fromkeys(room)),
        contents=contents,
        closed=tuple(match["place"].lower() for match in _CLOSED.finditer(head)),
        change=_read_change(head),
        bad_news=head if _BAD_NEWS.search(_HINT.sub("", head)) else "",
        hints=hints,
        commands=shown,
    )


def read_goal(text: str) -> Goal | None:
    """Return the goal of the last line that states one, or None: in a Chain, the last task's screen may come first."""
    lines = list(_GOAL_LINE.finditer(text))
    if not lines:
        return None
    line = lines[-1]
    for form in _GOALS:
        match = form.search(line["goal"].lower())
        if match is None:
            continue
        parts = match.groupdict()
        verb = parts.get("verb") or _VERB_OF.get(parts.get("state") or "", "")
        count = 2 if parts.get("two") else 1
        return Goal(parts["item"] or "", parts.get("place") or "", parts.get("lamp") or "", verb, count)
    return None


def kind_of(name: str) -> str:
    """Return `drawer` of `drawer 3`."""
    return name.rpartition(" ")[0]


def _before_the_goal(text: str) -> str:
    """Return the part of a screen that says what happened."""
    start = _SHOWN_COMMAND.search(text)
    head = text[: start.start()] if start else text
    goal = _GOAL_LINE.search(head)
    return head[: goal.start()] + head[goal.end() :] if goal else head


def _read_change(head: str) -> Change | None:
    for kind, form in _CHANGES.items():
        match = form.search(head)
        if match:
            parts = match.groupdict()
            return Change(kind, (parts.get("item") or "").lower(), (parts.get("place") or "").lower())
    return None
