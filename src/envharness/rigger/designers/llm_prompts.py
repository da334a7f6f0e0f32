"""The designer's prompts: text files of this package, filled in."""

from __future__ import annotations

from collections.abc import Sequence

from envharness.core.types import ToolSchema
from envharness.llm.prompts import fill_prompt
from envharness.rigger.designers.base import Evidence
from envharness.rigger.designers.llm_forms import AXES, AnswerForm
from envharness.rigger.fence import fence
from envharness.rigger.records import Round
from envharness.rigger.render import clip, render_candidate
from envharness.sandbox.hook_source import ALLOWED_IMPORTS

FEEDBACK_TOKENS = 400
"""What is said of one failed attempt."""
SOURCE_TOKENS = 1200
"""What is shown of one failed candidate."""


def prompt(name: str, **values: str) -> str:
    """Return a prompt of the designers, filled in. Raises KeyError for a place that no value is given for."""
    return fill_prompt("envharness.rigger", name, **values)


def system_prompt(instructions: str) -> str:
    """Return what every conversation begins with. `instructions` are the run's own, for this benchmark."""
    extra = f"# About this benchmark\n{instructions.strip()}" if instructions.strip() else ""
    return prompt("system", imports=", ".join(ALLOWED_IMPORTS), instructions=extra)


def how_to_answer(form: AnswerForm, tool: ToolSchema) -> str:
    """Return the sentence that says how to answer."""
    if form == "tool":
        return f"Answer by calling the tool {tool.name} once."
    properties = tool.parameters.get("properties")
    keys = ", ".join(properties) if isinstance(properties, dict) else ""
    return f"Answer with one JSON object with the keys {keys}."


def diagnosis_prompt(evidence: Evidence, failed: Sequence[Round], how: str) -> str:
    """Ask for the diagnosis."""
    return prompt(
        "diagnose",
        how=how,
        axes=", ".join(AXES),
        labels=known_labels(evidence),
        batch="latest round" if evidence.latest else "baseline",
        attempts=_attempts(failed),
    )


def candidate_prompt(failed: Sequence[Round], how: str) -> str:
    """Ask for the candidate."""
    return prompt("write", how=how, attempts=_attempts(failed))


def contract_prompt(stage: str, failed: Sequence[Round], how: str) -> str:
    """Ask for the Contract alone, the Stage being chosen."""
    return prompt("write_on_stage", stage=stage, how=how, attempts=_attempts(failed))


def known_labels(evidence: Evidence) -> str:
    """Return the labels of failures in use, so that they are used again."""
    used = [label for entry in evidence.rounds for label in entry.failures]
    names = sorted({f"{label.axis}/{label.label}" for label in (*evidence.failures, *used)})
    return ", ".join(names) or "none yet"


def _attempts(failed: Sequence[Round]) -> str:
    """Return what became of the attempts of this round, the last one last."""
    parts: list[str] = []
    for number, entry in enumerate(failed, start=1):
        said = fence(clip(entry.feedback, FEEDBACK_TOKENS), "what was wrong")
        parts.append(f"Attempt {number} of this round came back before a rollout was played:\n{said}")
        if entry.candidate.contract_source or entry.candidate.in_env_actions:
            parts.append(fence(clip(render_candidate(entry.candidate), SOURCE_TOKENS), "your attempt"))
    if parts:
        parts.append("Mend this. Do not send the same again.")
    return "\n".join(["", *parts]) if parts else ""
