"""A guarded ending: the call that ended lost episodes is refused the first times."""

from __future__ import annotations

from collections import Counter

from envharness.rigger.designers.base import Evidence
from envharness.rigger.records import Candidate
from envharness.rigger.templates.base import HITS, Template, key_of, source

MOST_REFUSALS = 12

_CLASS = '''
class _Contract(Contract):
    """Refuses a fixed share of the first attempts to end the episode."""

    def filter_action(self, action, env_state):
        if action.name != ENDING:
            return action
        tries = env_state.extras["tries"] = env_state.extras.get("tries", 0) + 1
        if tries <= MOST_REFUSALS and hits(tries):
            return Blocked(reason="Not yet: the task is not done. Look again at what is left and go on.")
        return action
'''


def ending_call(evidence: Evidence) -> str | None:
    """Return the tool whose call ended most lost rollouts, and no won one; None where there is none."""
    endings = {won: Counter(_last_calls(evidence, won=won)) for won in (True, False)}
    lost = [(count, name) for name, count in endings[False].items() if not endings[True][name]]
    return max(lost)[1] if lost else None


def _last_calls(evidence: Evidence, *, won: bool) -> list[str]:
    return [
        episode.steps[-1].action.name
        for episode in evidence.baseline
        if episode.success == won and episode.steps and episode.steps[-1].terminated and episode.steps[-1].action
    ]


def build(evidence: Evidence, magnitude: float) -> Candidate | None:
    """Refuse `magnitude` of the first attempts. None where no call ended a lost rollout."""
    ending = ending_call(evidence)
    if ending is None:
        return None
    text = source(
        _CLASS,
        HITS,
        key=key_of(evidence, "guard_ending"),
        share=round(magnitude, 4),
        ending=ending,
        most_refusals=MOST_REFUSALS,
    )
    return Candidate(
        contract_source=text,
        template="guard_ending",
        magnitude=magnitude,
        rationale=(
            f"No recorded win ends with {ending}, some losses do. {magnitude:.0%} of its first tries are refused, so "
            "that the policy goes on."
        ),
    )


GUARD_ENDING = Template(
    id="guard_ending",
    summary="the call that ended lost episodes is refused at first",
    direction="scaffold",
    flaws=("stops_early",),
    build=build,
    first=0.6,
)
