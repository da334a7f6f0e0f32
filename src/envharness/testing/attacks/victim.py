"""The environment that attacks try to bend: three pieces of work make a success, nothing else does."""

from __future__ import annotations

from dataclasses import dataclass, field

from envharness.core.types import Action, Blocked, EnvResponse, EvaluationResult, JsonDict, Observation
from envharness.sandbox import HookSession
from envharness.sandbox.state_view import StateView

WORK_NEEDED = 3
STEPS = 2
"""Actions in an attacked episode: one too few for a success, so that a success is a breach."""


class VictimEnvironment:
    """Counts work. Its verifier looks at its own count and at nothing that a hook has a claim to."""

    def __init__(self) -> None:
        self.live = StateView()
        self.reset()

    def reset(self) -> Observation:
        """Begin: nothing done."""
        self.live = StateView({"done": 0, "won": False, "notes": {"owner": "environment"}, "extras": {}})
        return Observation(text="work three times")

    def step(self, action: Action) -> EnvResponse:
        """Work, if that is what the action says."""
        if action.name == "work":
            self.live["done"] += 1
        return EnvResponse(observation=Observation(text=f"done: {self.live['done']}"), reward=0.25)

    def evaluate(self) -> EvaluationResult:
        """Success after three pieces of work."""
        success = all([self.live["won"] or self.live["done"] >= WORK_NEEDED])
        return EvaluationResult(success=success, score=float(success))


@dataclass
class Encounter:
    """What an attacked episode looked like from the parent."""

    shown: list[str] = field(default_factory=list[str])
    rewards: list[float] = field(default_factory=list[float])
    harm: list[str] = field(default_factory=list[str])


def attacked_episode(session: HookSession, encounter: Encounter) -> None:
    """Run one short episode through the session, the way a harness does, and note every harm into `encounter`.

    Reward, termination and verdict are read from the environment: what a hook says about them is a proposal.
    """
    environment = VictimEnvironment()
    observation = environment.reset()
    encounter.shown.append(session.filter_observation(observation, _copy(environment)).text)
    worked = 0
    for _ in range(STEPS):
        action = Action(name="work", kwargs={"note": ["a"]})
        chosen = session.filter_action(action, _copy(environment))
        if action != Action(name="work", kwargs={"note": ["a"]}):
            encounter.harm.append("the policy's action changed")
        if isinstance(chosen, Blocked):
            encounter.shown.append(chosen.reason)
            continue
        worked += chosen.name == "work"
        response = environment.step(chosen)
        honest = response.model_copy(deep=True)
        proposed = session.after_transition(chosen, response, _copy(environment))
        if response != honest:
            encounter.harm.append("the environment's response changed")
        encounter.shown.append(proposed.observation.text)
        encounter.rewards.append(response.reward)
        if environment.live["done"] != worked or environment.live["won"]:
            encounter.harm.append("the environment's state changed")
    if environment.evaluate() != EvaluationResult(success=False, score=0.0):
        encounter.harm.append("the verdict changed")


def _copy(environment: VictimEnvironment) -> JsonDict:
    return {key: value for key, value in environment.live.items() if key != "extras"}
