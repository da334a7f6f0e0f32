"""Rations: the kind of call a policy leans on runs out, and comes back after other calls."""

from __future__ import annotations

from envharness.rigger.designers.base import Evidence
from envharness.rigger.records import Candidate
from envharness.rigger.templates.base import HITS, MATCHES, Template, key_of, source
from envharness.rigger.templates.block import leaned_on, share_of_calls

LONGEST_PAUSE = 6
"""Turns after which a call is possible again at the latest."""

_CLASS = '''
class _Contract(Contract):
    """After each use, one kind of call pauses for a while; how long is fixed for each use."""

    def filter_action(self, action, env_state):
        extras = env_state.extras
        extras["turn"] = extras.get("turn", 0) + 1
        if not matches(action):
            return action
        if extras["turn"] < extras.get("free_at", 0):
            return Blocked(reason=f"{action.name} cannot be used like this again so soon; wait or do something else.")
        extras["uses"] = extras.get("uses", 0) + 1
        pause = sum(hits(extras["uses"], turn) for turn in range(LONGEST_PAUSE))
        extras["free_at"] = extras["turn"] + 1 + pause
        return action
'''


def build(evidence: Evidence, magnitude: float) -> Candidate | None:
    """Make the pause after a use `magnitude` times the longest one, on average."""
    pattern = leaned_on(evidence)
    if pattern is None:
        return None
    text = source(
        _CLASS,
        HITS,
        MATCHES,
        key=key_of(evidence, "ration_calls"),
        share=round(magnitude, 4),
        longest_pause=LONGEST_PAUSE,
        tool=pattern.tool,
        argument=pattern.argument,
        word=pattern.word,
    )
    return Candidate(
        contract_source=text,
        template="ration_calls",
        magnitude=magnitude,
        rationale=(
            f"The policy makes {share_of_calls(evidence, pattern)}. This now pauses after each use for "
            f"{magnitude * LONGEST_PAUSE:.1f} turns on average: it has to space its uses or do without."
        ),
    )


RATION = Template(
    id="ration_calls",
    summary="the calls a policy leans on pause after each use",
    direction="harden",
    flaws=("leans_on_action", "repeats_actions"),
    build=build,
)
