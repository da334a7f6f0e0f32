"""Detours: the episode starts after actions that lead away from the shortest known win."""

from __future__ import annotations

from envharness.core.messages import counted
from envharness.core.types import Action
from envharness.rigger.designers.base import Evidence
from envharness.rigger.observe import spell_all
from envharness.rigger.patterns import effective_actions
from envharness.rigger.records import Candidate
from envharness.rigger.templates.base import Template

LONGEST = 12
"""Actions a detour has at most."""


def detours(evidence: Evidence) -> list[tuple[Action, ...]]:
    """Return recorded beginnings that are no part of the shortest known win, mildest first.

    The longer a beginning, the more has to be taken back. Beginnings of rollouts that were won after all come first:
    there, the way back is known.
    """
    shortest = evidence.wins[0] if evidence.wins else ()
    found: dict[str, tuple[int, tuple[Action, ...]]] = {}
    for episode in evidence.baseline:
        actions = effective_actions(episode)
        for length in range(1, min(len(actions), LONGEST + 1)):
            start = actions[:length]
            if start != shortest[:length]:
                found.setdefault(spell_all(start), (length + (0 if episode.success else LONGEST), start))
    ranked = sorted(found.items(), key=lambda item: (item[1][0], item[0]))
    return [start for _, (_, start) in ranked]


def build(evidence: Evidence, magnitude: float) -> Candidate | None:
    """Take the detour that stands at `magnitude` between the mildest and the furthest. None where none was recorded."""
    options = detours(evidence)
    if not options:
        return None
    chosen = options[min(int(magnitude * len(options)), len(options) - 1)]
    return Candidate(
        in_env_actions=list(chosen),
        template="detour",
        magnitude=magnitude,
        rationale=(
            f"The episode starts after {counted(len(chosen), 'action')} that the policy itself has begun with and that "
            f"the shortest known win does not begin with ({spell_all(chosen)}): it has to find its way from there."
        ),
    )


DETOUR = Template(
    id="detour",
    summary="the episode starts off the way to the win",
    direction="harden",
    flaws=("fixed_opening", "revisits_states"),
    build=build,
)
