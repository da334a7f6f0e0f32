"""Transient failures: some calls fail the first times they are made, in the environment's own words."""

from __future__ import annotations

from envharness.rigger.designers.base import Evidence
from envharness.rigger.records import Candidate
from envharness.rigger.templates.base import HITS, SIGNATURE, Template, key_of, source
from envharness.rigger.templates.wording import failure_text

MOST_FAILURES = 4
"""A call that is repeated more often than this goes through: trying again is always a way out."""

_CLASS = '''
class _Contract(Contract):
    """The n-th try of a call fails for a fixed share of calls; nothing happens then."""

    def filter_action(self, action, env_state):
        tries = env_state.extras.setdefault("tries", {})
        name = signature(action)
        tries[name] = tries.get(name, 0) + 1
        if tries[name] <= MOST_FAILURES and hits(name, tries[name]):
            return Blocked(reason=FAILURE)
        return action
'''


def build(evidence: Evidence, magnitude: float) -> Candidate:
    """Make `magnitude` the share of first tries that fail."""
    text = source(
        _CLASS,
        HITS,
        SIGNATURE,
        key=key_of(evidence, "transient_failure"),
        share=round(magnitude, 4),
        most_failures=MOST_FAILURES,
        failure=failure_text(evidence),
    )
    return Candidate(
        contract_source=text,
        template="transient_failure",
        magnitude=magnitude,
        rationale=(
            f"A fixed share of {magnitude:.0%} of first tries fails and a later try goes through, so a policy that "
            "gives up, or abandons a good plan at the first failure, loses; one that tries again wins."
        ),
    )


TRANSIENT = Template(
    id="transient_failure",
    summary="calls fail the first times they are made",
    direction="harden",
    flaws=("stops_early", "one_path", "ignores_refusals"),
    build=build,
    appeal=0.2,
)
