"""Actions as patterns: which tool, with which leading word or value of which argument. Pure."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence

from pydantic import BaseModel, ConfigDict, JsonValue

from envharness.core.trace import Episode, TraceStep
from envharness.core.types import Action, ToolSchema

MAX_WORDS = 24
"""More leading words than this in one argument, and it names things instead of kinds of action."""


class ActionPattern(BaseModel):
    """A kind of action: all uses of a tool, or those whose argument begins with a word or has a value."""

    model_config = ConfigDict(frozen=True)

    tool: str
    argument: str = ""
    """Empty: every call of the tool."""
    word: str | int | bool = ""
    """The leading word of a text argument, or the exact value of another one."""

    def matches(self, action: Action) -> bool:
        """Whether `action` is of this kind."""
        if action.name != self.tool or not self.argument:
            return action.name == self.tool
        return self.word == leading(action.kwargs.get(self.argument))

    def __str__(self) -> str:
        return f"{self.tool}({self.argument}={self.word}...)" if self.argument else f"{self.tool}(...)"


def leading(value: JsonValue) -> str | int | bool | None:
    """Return what a value is recognised by: its first word, or itself where it is a number or truth value."""
    if isinstance(value, str):
        words = value.split()
        return words[0] if words else ""
    return value if isinstance(value, int) else None


def signature(action: Action) -> str:
    """Return one line that equal actions, and only they, share. Generated hooks compute the same."""
    return f"{action.name} {sorted(action.kwargs.items())}"


def spell(action: Action) -> str:
    """Return an action as a reader would write it: the text itself where its only argument is text."""
    values = list(action.kwargs.values())
    if len(values) == 1 and isinstance(values[0], str):
        return values[0]
    return str(action)


def effective(step: TraceStep) -> bool:
    """Whether a turn changed something, as far as the environment and the stack say."""
    return step.action is not None and not (step.refused or step.blocked or step.info.get("ineffective"))


def effective_actions(episode: Episode) -> tuple[Action, ...]:
    """Return the actions of an episode that did something, in order."""
    return tuple(
        Action(name=step.action.name, kwargs=step.action.kwargs)
        for step in episode.steps
        if step.action is not None and effective(step)
    )


def actions_of(episodes: Iterable[Episode]) -> list[Action]:
    """Return every action that was named, in order."""
    return [step.action for episode in episodes for step in episode.steps if step.action is not None]


def usage(episodes: Sequence[Episode], tools: Sequence[ToolSchema]) -> list[tuple[ActionPattern, int]]:
    """Count the kinds of action in use, most used first; ties in alphabetical order.

    A pattern on an argument is counted where the argument takes few values (an enum, or text that begins with few
    different words); an argument that names things, such as an object's number, is no kind of action.
    """
    actions = actions_of(episodes)
    counts: Counter[ActionPattern] = Counter()
    for tool in sorted({tool.name for tool in tools} | {action.name for action in actions}):
        calls = [action for action in actions if action.name == tool]
        if not calls:
            continue
        counts[ActionPattern(tool=tool)] = len(calls)
        for argument in sorted({argument for call in calls for argument in call.kwargs}):
            words = Counter(leading(call.kwargs.get(argument)) for call in calls)
            words.pop(None, None)
            if len(words) > 1 and not _names_things(argument, words, tools, tool):
                for word, count in words.items():
                    if word is not None:
                        counts[ActionPattern(tool=tool, argument=argument, word=word)] = count
    return sorted(counts.items(), key=lambda item: (-item[1], str(item[0])))


def _names_things(
    argument: str, words: Counter[str | int | bool | None], tools: Sequence[ToolSchema], tool: str
) -> bool:
    schema = next((schema for schema in tools if schema.name == tool), None)
    properties = schema.parameters.get("properties") if schema else None
    described = properties.get(argument) if isinstance(properties, dict) else None
    if isinstance(described, dict) and "enum" in described:
        return False
    if any(not isinstance(word, str) or not word.isalpha() for word in words):
        return True
    return len(words) > MAX_WORDS
