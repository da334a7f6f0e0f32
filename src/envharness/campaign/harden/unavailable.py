"""Variants in which something is unavailable: a tool, a kind of call, or a field of the screen. Pure."""

from __future__ import annotations

import inspect
from collections.abc import Sequence

from envharness.campaign.harden.records import Variant
from envharness.campaign.harden.screen import ScreenField, fields_of, label_of, labels_in, parts_of, without
from envharness.campaign.harden.suite import Case, PlayedTask
from envharness.core.messages import counted
from envharness.core.types import Observation, ToolSchema
from envharness.rigger.patterns import ActionPattern, usage
from envharness.rigger.records import Candidate
from envharness.rigger.templates.base import MATCHES, source

_REFUSED = '''
class _Contract(Contract):
    """One kind of call is refused for the whole episode."""

    def filter_action(self, action, env_state):
        return Blocked(reason=REASON) if matches(action) else action
'''

_HIDDEN = '''
def shown(value):
    """A value of the data; text that repeats the screen loses the hidden part as the screen does."""
    return without(value, LABELS, HIDDEN) if isinstance(value, str) and HIDDEN is not None else value


class _Contract(Contract):
    """One field of the screen is hidden, in the text and in the structured copy."""

    def filter_observation(self, observation, env_state):
        data = {key: shown(value) for key, value in observation.data.items() if key not in KEYS}
        return Observation(text=shown(observation.text), data=data)
'''


def tool_cases(tasks: Sequence[PlayedTask]) -> list[list[Case]]:
    """Return, for each tool and each narrower kind of call in use, the cases without it; the most used first."""
    episodes = [episode for task in tasks for episode in task.valid]
    tools: dict[str, ToolSchema] = {tool.name: tool for task in tasks for tool in task.view.tools}
    found: list[list[Case]] = []
    for pattern, count in usage(episodes, list(tools.values())):
        name = f"{pattern.tool}.{pattern.argument}={pattern.word}" if pattern.argument else pattern.tool
        variant = Variant(
            id=f"tools/{name}",
            kind="tools",
            what=f"{pattern} is refused, which the policy called {counted(count, 'time')}",
        )
        candidate = Candidate(
            contract_source=source(
                _REFUSED,
                MATCHES,
                reason=f"{_spelt(pattern)} is not allowed here; find another way.",
                tool=pattern.tool,
                argument=pattern.argument,
                word=pattern.word,
            ),
            rationale=variant.what,
        )
        found.append([Case(variant, task, candidate, avoids=pattern) for task in tasks])
    return found


def field_cases(tasks: Sequence[PlayedTask]) -> list[list[Case]]:
    """Return, for each field that the recorded screens show, the cases in which it is hidden."""
    screens = [screen for task in tasks for screen in _screens(task)]
    labels = labels_in([screen.text for screen in screens])
    found: list[list[Case]] = []
    for field in fields_of(screens):
        variant = Variant(id=f"fields/{field.name}", kind="fields", what=_what_is_hidden(field))
        candidate = Candidate(contract_source=hiding(field, labels), rationale=variant.what)
        found.append([Case(variant, task, candidate) for task in tasks])
    return found


def hiding(field: ScreenField, labels: list[str]) -> str:
    """Return the source of the Contract that hides a field of screens that have these labels."""
    functions = [inspect.getsource(function) for function in (label_of, parts_of, without)]
    text = source(_HIDDEN, *functions, labels=labels, hidden=field.label, keys=list(field.keys))
    return f"import re\n\n{text}"


def _spelt(pattern: ActionPattern) -> str:
    """Write a kind of call for the policy that is refused it."""
    return f"{pattern.tool} with {pattern.argument} {pattern.word}" if pattern.argument else pattern.tool


def _screens(task: PlayedTask) -> list[Observation]:
    """Return what the policy was shown; without answers to refused calls, which repeat the screen before."""
    shown: list[Observation] = []
    for episode in task.valid:
        shown += [episode.start.shown] if episode.start else []
        shown += [step.shown for step in episode.steps if not (step.refused or step.blocked or step.stopped)]
    return shown


def _what_is_hidden(field: ScreenField) -> str:
    keys = f"data {', '.join(field.keys)}"
    if field.label is None:
        return f"{keys} is left out"
    where = f"the text under {field.label!r}" if field.label else "the text that stands under no label"
    return f"{where} is hidden{f', with {keys}' if field.keys else ''}"
