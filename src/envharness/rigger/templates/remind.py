"""Reminders: the screen repeats the task and lists what was tried without effect."""

from __future__ import annotations

from envharness.rigger.designers.base import Evidence
from envharness.rigger.places import telling_numbers
from envharness.rigger.records import Candidate
from envharness.rigger.templates.base import CORE, HITS, Template, key_of, source

_TASK = '''
class _Contract(Contract):
    """Repeats the first screen below a fixed share of the later ones."""

    def filter_observation(self, observation, env_state):
        extras = env_state.extras
        extras["turn"] = extras.get("turn", 0) + 1
        if "first" not in extras:
            extras["first"] = observation.text
        elif hits(extras["turn"]):
            text = f"{observation.text}\\n\\nRemember how it began:\\n{extras['first']}"
            return Observation(text=text, data=observation.data)
        return observation
'''

_TRIED = '''
class _Contract(Contract):
    """Says below a fixed share of screens which calls changed nothing, so that they are not made again."""

    def filter_action(self, action, env_state):
        env_state.extras["core"] = core(env_state)
        return action

    def modify_transition(self, action, response, env_state):
        before = env_state.extras.get("core")
        useless = env_state.extras.setdefault("useless", [])
        if before == core(env_state) and str(action) not in useless:
            useless.append(str(action))
        return response

    def filter_observation(self, observation, env_state):
        extras = env_state.extras
        extras["turn"] = extras.get("turn", 0) + 1
        if not extras.get("useless") or not hits(extras["turn"]):
            return observation
        tried = "; ".join(extras["useless"][-8:])
        return Observation(text=f"{observation.text}\\n\\nThese changed nothing so far: {tried}", data=observation.data)
'''


def remind_task(evidence: Evidence, magnitude: float) -> Candidate:
    """Repeat the first screen below `magnitude` of the others."""
    text = source(_TASK, HITS, key=key_of(evidence, "remind_task"), share=round(magnitude, 4))
    why = f"Below {magnitude:.0%} of screens stands how it began, so the task is not lost from sight."
    return Candidate(contract_source=text, template="remind_task", magnitude=magnitude, rationale=why)


def remind_tried(evidence: Evidence, magnitude: float) -> Candidate:
    """List what changed nothing below `magnitude` of the screens."""
    telling = telling_numbers(evidence.baseline)
    text = source(_TRIED, HITS, CORE, key=key_of(evidence, "remind_tried"), share=round(magnitude, 4), telling=telling)
    why = f"Below {magnitude:.0%} of screens stands which calls changed nothing, so they need not be tried again."
    return Candidate(contract_source=text, template="remind_tried", magnitude=magnitude, rationale=why)


REMIND = (
    Template(
        "remind_task", "the screen repeats the task", "scaffold", ("revisits_states", "runs_out_of_steps"), remind_task
    ),
    Template(
        "remind_tried", "the screen lists vain calls", "scaffold", ("repeats_actions", "ignores_refusals"), remind_tried
    ),
)
