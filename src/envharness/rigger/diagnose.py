"""Diagnose: which flaw stands out in the baseline rollouts, in words and with the steps where it shows. Pure."""

from __future__ import annotations

from collections.abc import Sequence

from envharness.core.messages import counted
from envharness.core.trace import Episode
from envharness.core.types import ToolSchema
from envharness.rigger.flaws import FLAWS, Finding
from envharness.rigger.records import Diagnosis, Direction, Measurement

STANDS_OUT = 0.25
"""A flaw weaker than this is not named."""
SHOWN = 6
"""Lines of evidence a diagnosis carries."""

_LOSING = frozenset({"stops_early", "runs_out_of_steps", "repeats_actions", "ignores_refusals", "revisits_states"})
"""Flaws that explain losses; the others show in wins, too, and matter where the task is too easy."""


def diagnose(
    episodes: Sequence[Episode], tools: Sequence[ToolSchema], measured: Measurement, direction: Direction
) -> Diagnosis:
    """Score every flaw and describe the one that matters most for `direction`."""
    findings = {flaw.name: flaw.measure(episodes, tools) for flaw in FLAWS}
    scores = {name: round(finding.score, 4) for name, finding in findings.items()}

    def weight(name: str) -> float:
        explains_losses = name in _LOSING
        return scores[name] * (1.0 if explains_losses == (direction == "scaffold") else 0.5)

    # Ties go to the flaw listed first: dictionaries keep the order of FLAWS.
    flaw = max(scores, key=weight)
    if weight(flaw) < STANDS_OUT:
        flaw = "none"
    return Diagnosis(
        flaw=flaw,
        text=_text(flaw, findings, measured, direction),
        direction=direction,
        evidence=findings[flaw].evidence[:SHOWN] if flaw != "none" else [],
        scores=scores,
    )


def _text(flaw: str, findings: dict[str, Finding], measured: Measurement, direction: Direction) -> str:
    rollouts = counted(measured.valid, "rollout")
    won = f"The policy won {measured.successes} of {rollouts}, in {measured.mean_steps:.1f} turns each."
    meanings = {known.name: known.meaning for known in FLAWS}
    if flaw == "none":
        seen = "No weakness stands out in its trajectories."
    else:
        shows = counted(len(findings[flaw].evidence), "place")
        seen = f"Its trajectories show that {meanings[flaw]} (strength {findings[flaw].score:.2f}, {shows})."
    goal = {
        "harden": "The task is too forgiving: put an obstacle where this habit carries the win.",
        "scaffold": "The task is too hard: take an early part of it away, or tell what the policy does not see.",
        "sharpen": "The task is in the band: make the habit matter without moving the rate.",
    }[direction]
    return f"{won} {seen} {goal}"
