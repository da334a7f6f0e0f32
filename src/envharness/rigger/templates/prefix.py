"""Prefixes: the episode starts some actions into a known win, and the rest is hinted at in part."""

from __future__ import annotations

from envharness.rigger.designers.base import Evidence
from envharness.rigger.places import telling_numbers
from envharness.rigger.records import Candidate
from envharness.rigger.templates.base import Template, key_of
from envharness.rigger.templates.hint import hint_source

SMALLEST_SHARE = 0.02
"""Hints rarer than this are left out."""


def build(evidence: Evidence, magnitude: float) -> Candidate | None:
    """Play `magnitude` of a known win in advance, never its last action. None where no win of two actions is known.

    A win has few actions, so what the fraction leaves over becomes hints: 1.5 actions are one action played and hints
    on half of the turns.
    """
    plan = next((win for win in evidence.wins if len(win) > 1), None)
    if plan is None:
        return None
    amount = magnitude * (len(plan) - 1)
    played = min(int(amount), len(plan) - 1)
    share = amount - played
    contract = ""
    if share >= SMALLEST_SHARE:
        telling = telling_numbers(evidence.baseline)
        contract = hint_source(plan[played:], share, key_of(evidence, "prefix"), telling)
    if not played and not contract:
        return None
    return Candidate(
        in_env_actions=list(plan[:played]),
        contract_source=contract,
        template="winning_prefix",
        magnitude=magnitude,
        rationale=(
            f"Actions of a known win done before the policy starts: {played} of {len(plan)}. The next ones are named "
            f"on {share if contract else 0:.0%} of turns: what is left is the part it can learn on."
        ),
    )


PREFIX = Template(
    id="winning_prefix",
    summary="the episode starts some actions into a known win",
    direction="scaffold",
    flaws=("runs_out_of_steps", "revisits_states", "none"),
    build=build,
    first=0.75,
    appeal=0.3,
)
