"""The template designer: flaw scores choose a component from the library, measured rates turn its magnitude."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from envharness.core.errors import ConfigError
from envharness.rigger.config import AcceptanceConfig
from envharness.rigger.designers.base import Evidence
from envharness.rigger.designers.dosing import best_dose, known_candidate
from envharness.rigger.diagnose import STANDS_OUT
from envharness.rigger.records import Candidate, Diagnosis, Round
from envharness.rigger.search import Response, next_magnitude
from envharness.rigger.templates import LIBRARY, Template

PROMISING = 0.4
"""An untried type of less appeal waits until the magnitudes of the tried ones are used up."""
CHECKS_LOST = 3
"""A type that failed this many free checks without one paid round is given up: its window is too narrow to find."""


MOVED = frozenset({"too_easy", "too_hard", "unsolvable", "undecided"})
"""Verdicts that say the type works and the magnitude does not."""


class TemplateDesigner:
    """Needs no model. The refinement rule: movement keeps the type and changes the size; no movement changes the type.

    Under the acceptance rule `dose` one response curve a type chooses both: every batch goes to the type and magnitude
    that is most probably on target. `only` names the templates it may use (default: all of the library).
    """

    def __init__(self, only: Sequence[str] | None = None) -> None:
        self._library = choose_templates(only)

    def steers(self, acceptance: AcceptanceConfig) -> bool:
        """Under `dose` every batch may go to another dose."""
        return acceptance.rule == "dose"

    def propose(self, evidence: Evidence) -> Candidate | None:
        """Go on with the type at hand as long as its magnitude has somewhere to go, then with the next best."""
        ranked = rank(self._library, evidence)
        if self.steers(evidence.acceptance):
            return _most_probable(ranked, evidence)
        last = evidence.rounds[-1] if evidence.rounds else None
        if last is not None:
            if last.verdict == "incomplete":
                # Nothing was learnt about it, so it is asked again, with fresh rollouts.
                return last.candidate
            current = next((template for template in ranked if template.id == last.candidate.template), None)
            if current is not None and (candidate := _refined(current, evidence, last)) is not None:
                return candidate
        tried = {entry.candidate.template for entry in evidence.rounds}
        untried = [template for template in ranked if template.id not in tried]
        promising = [template for template in untried if appeal(template, evidence.diagnosis) >= PROMISING]
        return _first_of(promising, evidence) or _deeper(ranked, evidence) or _first_of(untried, evidence)


def _most_probable(ranked: Sequence[Template], evidence: Evidence) -> Candidate | None:
    """Return the candidate that is most probably on target, or None where none is likely enough any more."""
    buildable = [template for template in ranked if template.build(evidence, template.first) is not None]
    while (best := best_dose(buildable, evidence)) is not None:
        template, magnitude = best
        candidate = known_candidate(template, magnitude, evidence.rounds) or make(template, evidence, magnitude)
        if candidate is not None:
            return candidate
        # It finds nothing to work with at this magnitude, though it did at its first.
        buildable.remove(template)
    return None


def choose_templates(only: Sequence[str] | None) -> tuple[Template, ...]:
    """Return the templates named, or all. Raises ConfigError for a name that is not in the library."""
    if only is None:
        return LIBRARY
    known = {template.id: template for template in LIBRARY}
    if unknown := [name for name in only if name not in known]:
        raise ConfigError(f"designer: no template {unknown[0]!r} (known: {', '.join(sorted(known))})")
    return tuple(known[name] for name in only)


def usable(library: Iterable[Template], evidence: Evidence) -> list[Template]:
    """Return the templates that move a task the way it should go. Sharpening uses obstacles."""
    wanted = "scaffold" if evidence.direction == "scaffold" else "harden"
    return [template for template in library if template.direction == wanted]


def rank(library: Iterable[Template], evidence: Evidence) -> list[Template]:
    """Order templates by how strongly the flaws that they answer show; ties in the library's order."""
    return sorted(usable(library, evidence), key=lambda template: -appeal(template, evidence.diagnosis))


def appeal(template: Template, diagnosis: Diagnosis) -> float:
    """Return how well a template answers a diagnosis."""
    shown = [diagnosis.scores.get(flaw, 0.0) for flaw in template.flaws]
    named = 0.25 if diagnosis.flaw in template.flaws else 0.0
    return template.appeal + max(shown, default=0.0) + named


def answered(template: Template, diagnosis: Diagnosis) -> str:
    """Return the flaw that a template answers: of its flaws, the one that shows most; `none` where none stands out."""
    shown = [flaw for flaw in template.flaws if diagnosis.scores.get(flaw, 0.0) >= STANDS_OUT]
    return max(shown, key=lambda flaw: (diagnosis.scores[flaw], flaw == diagnosis.flaw), default="none")


def make(template: Template, evidence: Evidence, magnitude: float) -> Candidate | None:
    """Return a candidate that says which flaw it answers, or None where the template finds nothing to work with."""
    candidate = template.build(evidence, magnitude)
    return candidate and candidate.model_copy(update={"answers": answered(template, evidence.diagnosis)})


def _refined(template: Template, evidence: Evidence, last: Round) -> Candidate | None:
    """Return the same type at another magnitude, or None where the type is to be given up."""
    failed = next((check.id for check in last.checks if not check.passed), None)
    # A magnitude without effect ends a type, unless another magnitude of it has had one: then it was too small.
    moved = any(e.verdict in MOVED for e in evidence.rounds if e.candidate.template == template.id and e.measured)
    keeps = last.verdict in MOVED or failed == "changes_something" or (last.verdict == "no_movement" and moved)
    return _at_next_magnitude(template, evidence) if keeps else None


def _at_next_magnitude(template: Template, evidence: Evidence) -> Candidate | None:
    mine = [entry for entry in evidence.rounds if entry.candidate.template == template.id]
    if len(mine) >= CHECKS_LOST and all(entry.measured is None for entry in mine):
        return None
    magnitude = next_magnitude(
        responses(template, evidence),
        target=sum(evidence.band) / 2,
        rising=template.direction == "scaffold",
        first=template.first,
    )
    return None if magnitude is None else make(template, evidence, magnitude)


def responses(template: Template, evidence: Evidence) -> list[Response]:
    """Return what is known of a type: measured rates, and what a free check says without a rollout."""
    before = evidence.measured.success_rate or 0.0
    found: list[Response] = []
    for entry in evidence.rounds:
        magnitude = entry.candidate.magnitude
        if entry.candidate.template != template.id or magnitude is None:
            continue
        rate = None if entry.measured is None or not entry.measured.complete else entry.measured.success_rate
        if rate is None and entry.verdict == "unsolvable":
            rate = 0.0
        if rate is None and any(check.id == "changes_something" and not check.passed for check in entry.checks):
            rate = before
        if rate is not None:
            found.append(Response(magnitude, rate))
    return found


def _first_of(templates: Iterable[Template], evidence: Evidence) -> Candidate | None:
    """Return the first candidate that any of the templates can make."""
    made = (make(template, evidence, template.first) for template in templates)
    return next((candidate for candidate in made if candidate is not None), None)


def _deeper(ranked: Sequence[Template], evidence: Evidence) -> Candidate | None:
    """All types were tried: go on with those whose magnitude still has somewhere to go, in order of rank."""
    made = (_at_next_magnitude(template, evidence) for template in ranked)
    return next((candidate for candidate in made if candidate is not None), None)
