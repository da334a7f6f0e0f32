"""Blocks: part of the calls of the kind a policy leans on is refused for good; a known way to win is spared."""

from __future__ import annotations

from envharness.core.messages import counted
from envharness.rigger.designers.base import Evidence
from envharness.rigger.patterns import ActionPattern, actions_of, effective_actions, signature, usage
from envharness.rigger.records import Candidate
from envharness.rigger.templates.base import HITS, MATCHES, SIGNATURE, Template, key_of, source

_CLASS = '''
class _Contract(Contract):
    """A fixed share of the calls of one kind is refused, whenever they are made."""

    def filter_action(self, action, env_state):
        name = signature(action)
        if matches(action) and name not in SPARED and hits(name):
            return Blocked(reason=f"{action.name} is not allowed with these arguments; find another way.")
        return action
'''


def leaned_on(evidence: Evidence) -> ActionPattern | None:
    """Return the kind of action used most: a narrow one where there is one, else the most used tool."""
    counted = usage(evidence.baseline, evidence.tools)
    narrow = next((pattern for pattern, _ in counted if pattern.argument), None)
    return narrow or next((pattern for pattern, _ in counted), None)


def share_of_calls(evidence: Evidence, pattern: ActionPattern) -> str:
    """Say how many of the recorded calls are of a kind: `12 of 15 calls as mix(how=stir...)`."""
    calls = actions_of(evidence.baseline)
    return f"{sum(map(pattern.matches, calls))} of {counted(len(calls), 'call')} as {pattern}"


def spared_calls(evidence: Evidence) -> list[str]:
    """Return the calls of the known win that the policy takes least often, so that one way always stays open.

    Where one way is all that is known, nothing is spared: that way is the habit to break, and the free check with the
    reference solution says whether another one is left.
    """
    if len(evidence.wins) < 2:  # noqa: PLR2004  the rarest of one is the habit itself
        return []
    taken = [effective_actions(episode) for episode in evidence.baseline if episode.success]
    rarest = min(evidence.wins, key=lambda win: (taken.count(win), len(win)))
    return sorted({signature(action) for action in rarest})


def blockable(evidence: Evidence, spared: list[str]) -> ActionPattern | None:
    """Return the most used kind of action, narrow ones first, that has calls which are not spared."""
    taken = [action for episode in evidence.baseline for action in effective_actions(episode)]
    patterns = [pattern for pattern, _ in usage(evidence.baseline, evidence.tools)]
    for pattern in sorted(patterns, key=lambda pattern: not pattern.argument):
        if any(pattern.matches(action) and signature(action) not in spared for action in taken):
            return pattern
    return None


def build(evidence: Evidence, magnitude: float) -> Candidate | None:
    """Make `magnitude` the share of different calls of the kind that are refused. None where all calls are spared."""
    spared = spared_calls(evidence)
    pattern = blockable(evidence, spared)
    if pattern is None:
        return None
    text = source(
        _CLASS,
        HITS,
        SIGNATURE,
        MATCHES,
        key=key_of(evidence, "block_calls"),
        share=round(magnitude, 4),
        tool=pattern.tool,
        argument=pattern.argument,
        word=pattern.word,
        spared=spared,
    )
    return Candidate(
        contract_source=text,
        template="block_calls",
        magnitude=magnitude,
        rationale=(
            f"The policy makes {share_of_calls(evidence, pattern)}. A fixed share of {magnitude:.0%} of these calls is "
            f"refused; {'a known way to win stays open, and' if spared else 'where another way is left,'} the policy "
            "has to find it."
        ),
    )


BLOCK = Template(
    id="block_calls",
    summary="part of the calls a policy leans on is refused",
    direction="harden",
    flaws=("leans_on_action", "one_path", "fixed_opening"),
    build=build,
)
