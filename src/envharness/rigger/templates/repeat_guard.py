"""A repeat guard: a call that was made a short while ago is refused."""

from __future__ import annotations

from envharness.rigger.designers.base import Evidence
from envharness.rigger.records import Candidate
from envharness.rigger.templates.base import SIGNATURE, Template, source

LONGEST_MEMORY = 24
"""Turns back that the guard looks at full magnitude."""

_CLASS = '''
class _Contract(Contract):
    """Refuses a call that was made among the last few."""

    def filter_action(self, action, env_state):
        recent = env_state.extras.setdefault("recent", [])
        name = signature(action)
        repeated = name in recent[-MEMORY:]
        recent.append(name)
        if repeated:
            return Blocked(reason="You have just tried that; try something else.")
        return action
'''


def build(evidence: Evidence, magnitude: float) -> Candidate:
    """Let the guard look back `magnitude` times the longest memory."""
    del evidence
    memory = max(1, round(magnitude * LONGEST_MEMORY))
    return Candidate(
        contract_source=source(_CLASS, SIGNATURE, memory=memory),
        template="repeat_guard",
        magnitude=magnitude,
        rationale=f"A call is refused while it is among the last {memory}, so repeating it no longer works as a plan.",
    )


REPEAT_GUARD = Template(
    id="repeat_guard",
    summary="a call made a short while ago is refused",
    direction="harden",
    flaws=("repeats_actions", "revisits_states"),
    build=build,
    first=0.25,
)
