"""Rounds as doses: a candidate with a template and a magnitude is a dose, and its rollouts are a trial of it."""

from __future__ import annotations

from collections.abc import Iterable

from envharness.rigger.measurement import counts
from envharness.rigger.records import Candidate, Direction, Measurement, Round
from envharness.statistics.dose import Dose, DoseBelief, Trial


def dose_of(candidate: Candidate) -> Dose | None:
    """Return the candidate's dose, or None where it has no magnitude."""
    if not candidate.template or candidate.magnitude is None:
        return None
    return Dose(candidate.template, candidate.magnitude)


def trials_of(rounds: Iterable[Round]) -> list[Trial]:
    """Return what complete rounds say about doses. An incomplete one says nothing, nor does a void one."""
    found: list[Trial] = []
    for entry in rounds:
        dose, measured = dose_of(entry.candidate), entry.measured
        if dose is not None and measured is not None and counts(entry):
            found.append(Trial(dose.type, dose.magnitude, measured.successes, measured.valid))
    return found


def belief_of(
    band: tuple[float, float], direction: Direction, baseline: Measurement, rounds: Iterable[Round]
) -> DoseBelief:
    """Return what all rollouts of a task say about every dose."""
    return DoseBelief(
        band=band,
        falling=direction != "scaffold",
        baseline=(baseline.successes, baseline.valid),
        trials=tuple(trials_of(rounds)),
    )
