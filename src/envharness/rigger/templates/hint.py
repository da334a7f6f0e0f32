"""Hints: on a share of turns the screen names the next action of a known win."""

from __future__ import annotations

from envharness.core.messages import counted
from envharness.core.types import Action
from envharness.rigger.designers.base import Evidence
from envharness.rigger.patterns import signature, spell
from envharness.rigger.places import telling_numbers
from envharness.rigger.records import Candidate
from envharness.rigger.templates.base import CORE, HITS, SIGNATURE, Template, key_of, source

_CLASS = '''
class _Contract(Contract):
    """Keeps track of how far the policy has come on a known way to win, and tells the next step on some turns."""

    def filter_observation(self, observation, env_state):
        extras = env_state.extras
        places = extras.setdefault("places", [])
        done = extras.get("done", 0)
        here = core(env_state)
        known = [place for place in places if place["core"] == here]
        if known:
            done = known[0]["done"]
        else:
            places.append({"core": here, "done": done})
        extras["done"] = done
        extras["turn"] = extras.get("turn", 0) + 1
        if done >= len(PLAN) or not hits(extras["turn"]):
            return observation
        return Observation(text=f"{observation.text}\\nHint: {PLAN[done][1]}", data=observation.data)

    def modify_transition(self, action, response, env_state):
        done = env_state.extras.get("done", 0)
        if done < len(PLAN) and signature(action) == PLAN[done][0]:
            env_state.extras["done"] = done + 1
        return response
'''


def hint_source(plan: tuple[Action, ...], share: float, key: str, telling: list[str]) -> str:
    """Return a Contract that tells the actions of `plan` on `share` of the turns.

    `telling` names the numbers of the state that are no counters.
    """
    steps = [(signature(action), spell(action)) for action in plan]
    return source(_CLASS, HITS, CORE, SIGNATURE, key=key, share=round(share, 4), telling=telling, plan=steps)


def build(evidence: Evidence, magnitude: float) -> Candidate | None:
    """Give a hint on `magnitude` of the turns. None where no win is known."""
    if not evidence.wins:
        return None
    plan = evidence.wins[0]
    return Candidate(
        contract_source=hint_source(plan, magnitude, key_of(evidence, "hint"), telling_numbers(evidence.baseline)),
        template="hint",
        magnitude=magnitude,
        rationale=(
            f"On a fixed {magnitude:.0%} of turns the screen names the next action of a known win, which takes "
            f"{counted(len(plan), 'action')}; the policy still has to act on it and to find what is not named."
        ),
    )


HINT = Template(
    id="hint",
    summary="the screen names the next action of a known win on some turns",
    direction="scaffold",
    flaws=("stops_early", "runs_out_of_steps", "none"),
    build=build,
    first=0.75,
    appeal=0.4,
)
