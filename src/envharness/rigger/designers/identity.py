"""The null: a component that does nothing, through the same gate, with the same number of rounds and rollouts."""

from __future__ import annotations

from envharness.rigger.designers.base import Evidence
from envharness.rigger.records import Candidate


class IdentityDesigner:
    """Proposes nothing, again and again. What it gets accepted is luck and retries; every share is read against it."""

    def propose(self, evidence: Evidence) -> Candidate:
        """Return the empty candidate."""
        del evidence
        return Candidate(
            template="identity", answers="none", rationale="Changes nothing: measures what luck and retries accept."
        )
