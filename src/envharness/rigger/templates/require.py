"""Preconditions: some calls are refused until another one, which the policy neglects, has been made."""

from __future__ import annotations

import re

from envharness.core.messages import counted
from envharness.core.types import Action, ToolSchema
from envharness.rigger.designers.base import Evidence
from envharness.rigger.patterns import actions_of
from envharness.rigger.records import Candidate
from envharness.rigger.templates.base import HITS, SIGNATURE, Template, key_of, source

_ENDS = re.compile(r"\b(end|ends|stop|submit|finish|quit|exit|give up|answer)", re.IGNORECASE)

_CLASS = '''
class _Contract(Contract):
    """A fixed share of calls is possible only once another call was made, at any time before."""

    def filter_action(self, action, env_state):
        if action.name == FIRST:
            env_state.extras["done"] = True
        elif not env_state.extras.get("done") and hits(signature(action)):
            return Blocked(reason=f"You must first call {FIRST}.")
        return action
'''


def neglected_call(evidence: Evidence) -> Action | None:
    """Return the least used call that needs no argument and, as far as one can tell, does not end the episode."""
    used = [action.name for action in actions_of(evidence.baseline)]
    ending = {
        step.action.name
        for episode in evidence.baseline
        for step in episode.steps
        if step.action is not None and step.terminated
    }
    free = [tool for tool in evidence.tools if tool.name not in ending and _needs_nothing(tool)]
    if not free or not used:
        return None
    return Action(name=min(free, key=lambda tool: (used.count(tool.name), tool.name)).name)


def _how_often(evidence: Evidence, tool: str) -> str:
    used = [action.name for action in actions_of(evidence.baseline)]
    if tool not in used:
        return f"The policy never calls {tool}"
    return f"The policy calls {tool} in {used.count(tool)} of {counted(len(used), 'turn')}"


def _needs_nothing(tool: ToolSchema) -> bool:
    return not tool.parameters.get("required") and not _ENDS.search(f"{tool.name.replace('_', ' ')} {tool.description}")


def build(evidence: Evidence, magnitude: float) -> Candidate | None:
    """Make `magnitude` the share of calls that ask for the other one first."""
    first = neglected_call(evidence)
    if first is None:
        return None
    text = source(
        _CLASS,
        HITS,
        SIGNATURE,
        key=key_of(evidence, "require_first"),
        share=round(magnitude, 4),
        first=first.name,
    )
    return Candidate(
        contract_source=text,
        template="require_first",
        magnitude=magnitude,
        parameters={"opens_with": [first.model_dump(mode="json")]},
        rationale=(
            f"{_how_often(evidence, first.name)}. A fixed share of {magnitude:.0%} of its other calls now asks for "
            "it first and says so: a policy that reads refusals gets through."
        ),
    )


REQUIRE = Template(
    id="require_first",
    summary="calls ask for a neglected one first",
    direction="harden",
    flaws=("neglects_tool", "fixed_opening"),
    build=build,
)
