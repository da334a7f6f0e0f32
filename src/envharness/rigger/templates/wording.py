"""The environment's own words for failure, so that an obstacle sounds like the world it stands in."""

from __future__ import annotations

from collections import Counter

from envharness.rigger.designers.base import Evidence

USUAL = "Nothing happens."
"""Said where the recorded rollouts hold no failure to learn from."""


def failure_text(evidence: Evidence) -> str:
    """Return the most frequent first line of answers to calls without effect, cut at the first colon.

    What follows a colon mostly names the call at hand, which would be wrong for another one.
    """
    lines = Counter(
        step.shown.text.strip().splitlines()[0].split(":")[0].strip(" .")
        for episode in evidence.baseline
        for step in episode.steps
        if step.info.get("ineffective") and step.shown.text.strip()
    )
    if not lines:
        return USUAL
    text = max(sorted(lines), key=lambda line: lines[line])
    return f"{text}." if text else USUAL
