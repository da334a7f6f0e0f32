"""A control between template and random: the template designer with the flaw scores dealt to the wrong flaws."""

from __future__ import annotations

from dataclasses import replace

from envharness.core.seeding import stream
from envharness.rigger.designers.base import Evidence
from envharness.rigger.designers.template import TemplateDesigner
from envharness.rigger.records import Candidate, Diagnosis


class BlindDesigner(TemplateDesigner):
    """Searches magnitudes as the template designer does, and chooses the type by a diagnosis that is none.

    What that one gets beyond this one is the worth of the diagnosis alone. The scores are the task's own, so they are
    as strong; only whose they are is drawn, once a task. Templates still read what they are built from (the usual
    opening, the favourite action) in the trajectories. `only` names the templates it may use.
    """

    def propose(self, evidence: Evidence) -> Candidate | None:
        """Propose as the template designer would if the scores were true."""
        candidate = super().propose(replace(evidence, diagnosis=shuffled(evidence.diagnosis, evidence.seed)))
        return candidate and candidate.model_copy(update={"answers": "none"})


def shuffled(diagnosis: Diagnosis, seed: int) -> Diagnosis:
    """Return the diagnosis with its scores dealt out anew; the flaw that it names goes where its score went."""
    names = sorted(diagnosis.scores)
    dealt = stream(seed, "blind designer").sample(names, len(names))
    moved = dict(zip(names, dealt, strict=True))
    scores = {moved[name]: score for name, score in diagnosis.scores.items()}
    return diagnosis.model_copy(update={"scores": scores, "flaw": moved.get(diagnosis.flaw, diagnosis.flaw)})
