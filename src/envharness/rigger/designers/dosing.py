"""Choosing a dose: which type of component, at which magnitude, is most probably on target. Pure."""

from __future__ import annotations

from collections.abc import Sequence

from envharness.rigger.designers.base import Evidence
from envharness.rigger.doses import belief_of
from envharness.rigger.records import Candidate, Round
from envharness.rigger.templates import Template

STEPS = 32
"""Magnitudes tried are multiples of 1/32: templates change shares of what a policy does, and it does few things."""
GRID = tuple(step / STEPS for step in range(1, STEPS + 1))
FAULTS = 2
"""A type whose hooks failed, or did not compile, this often is given up."""


def best_dose(templates: Sequence[Template], evidence: Evidence) -> tuple[Template, float] | None:
    """Return the type and magnitude to play next, or None where nothing is worth playing any more.

    `templates` are ordered by how well they answer the diagnosis, which decides among equals. Nothing is worth it
    once no type can be brought on target with the probability `acceptance.hopeless`.
    """
    doses = {template.id: open_magnitudes(template, evidence) for template in templates}
    belief = belief_of(evidence.band, evidence.direction, evidence.measured, evidence.rounds)
    hopeful = [
        template.id
        for template in templates
        if doses[template.id] and belief.reachable(template.id, doses[template.id]) >= evidence.acceptance.hopeless
    ]
    best = belief.best(hopeful, doses)
    if best is None:
        return None
    return next(template for template in templates if template.id == best.type), best.magnitude


def open_magnitudes(template: Template, evidence: Evidence) -> list[float]:
    """Return the magnitudes of a type that no free check has ruled out, the one to begin with first.

    What leaves a task unsolvable does so at every larger magnitude of an obstacle, and what changes nothing changes
    nothing at any smaller one. A check is no rollout, so it shifts no belief about the rate.
    """
    mine = [entry for entry in evidence.rounds if entry.candidate.template == template.id]
    if sum(_is_fault(entry) for entry in mine) >= FAULTS:
        return []
    found = [magnitude for magnitude in GRID if not any(_rules_out(entry, magnitude) for entry in mine)]
    return sorted(found, key=lambda magnitude: (abs(magnitude - template.first), magnitude))


def known_candidate(template: Template, magnitude: float, rounds: Sequence[Round]) -> Candidate | None:
    """Return the candidate that was played at this dose, so that going back to it is going back to the same world."""
    return next(
        (
            entry.candidate
            for entry in rounds
            if entry.candidate.template == template.id and entry.candidate.magnitude == magnitude
        ),
        None,
    )


def _is_fault(entry: Round) -> bool:
    return (
        entry.verdict in {"check_failed", "component_fault", "verifier_drift"}
        and _failed_check(entry) != "changes_something"
    )


def _rules_out(entry: Round, magnitude: float) -> bool:
    """Whether a round in which a free check failed says that a dose of the same type is not worth building."""
    own = entry.candidate.magnitude
    if own is None or entry.measured is not None or entry.verdict == "incomplete":
        return False
    match _failed_check(entry):
        case "changes_something":
            return magnitude <= own
        case "reference_solves":
            return magnitude >= own
        case _:
            return magnitude == own


def _failed_check(entry: Round) -> str:
    return next((check.id for check in entry.checks if not check.passed), "")
