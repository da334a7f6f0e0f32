"""The control: a random template at a random magnitude, through the same gate with the same rollouts."""

from __future__ import annotations

from collections.abc import Sequence

from envharness.core.seeding import stream
from envharness.rigger.designers.base import Evidence
from envharness.rigger.designers.template import choose_templates, make, usable
from envharness.rigger.records import Candidate

DRAWS = 32
"""Templates drawn before it says that none fits the evidence."""


class RandomDesigner:
    """Knows the direction and nothing else. What it gets accepted is what search without a diagnosis is worth."""

    def __init__(self, only: Sequence[str] | None = None) -> None:
        self._library = choose_templates(only)

    def propose(self, evidence: Evidence) -> Candidate | None:
        """Draw; the number of candidates so far is part of the stream's name, so that a resumed run draws the same."""
        random = stream(evidence.seed, "random designer", len(evidence.rounds))
        templates = usable(self._library, evidence)
        for _ in range(DRAWS if templates else 0):
            candidate = make(random.choice(templates), evidence, random.random())
            if candidate is not None:
                return candidate
        return None
