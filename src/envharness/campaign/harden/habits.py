"""Variants that take a habit away: what the flaws name as leaned on, answered by the rigger's own templates."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from envharness.campaign.harden.records import Variant
from envharness.campaign.harden.suite import Case, PlayedTask
from envharness.rigger.designers.base import Evidence
from envharness.rigger.diagnose import STANDS_OUT
from envharness.rigger.patterns import signature
from envharness.rigger.records import Candidate
from envharness.rigger.templates import LIBRARY
from envharness.rigger.templates.base import SIGNATURE, source

CLOSED_TURNS = 3
"""Turns at the start in which the usual opening is refused; waiting is always a way out."""

_OPENING = '''
class _Contract(Contract):
    """The usual first action is refused in the first turns."""

    def filter_action(self, action, env_state):
        turn = env_state.extras["turn"] = env_state.extras.get("turn", 0) + 1
        if turn <= CLOSED_TURNS and signature(action) == OPENING:
            return Blocked(reason="Not yet: begin with something else.")
        return action
'''
_TEMPLATES = {template.id: template for template in LIBRARY}


@dataclass(frozen=True)
class Habit:
    """A way of going about things, the flaws that show it, and the component that takes it away."""

    name: str
    what: str
    flaws: tuple[str, ...]
    build: Callable[[Evidence], Candidate | None]


def habit_cases(tasks: Sequence[PlayedTask]) -> list[list[Case]]:
    """Return the cases of each habit whose flaw stands out over the suite, strongest first."""
    ranked: list[tuple[float, list[Case]]] = []
    for habit in HABITS:
        strength = max(_mean_score(tasks, flaw) for flaw in habit.flaws)
        if strength < STANDS_OUT:
            continue
        what = f"{habit.what} (strength {strength:.2f})"
        variant = Variant(id=f"habits/{habit.name}", kind="habits", what=what)
        made = [(task, habit.build(task.evidence)) for task in tasks if task.valid]
        cases = [Case(variant, task, candidate) for task, candidate in made if candidate is not None]
        ranked += [(strength, cases)] if cases else []
    return [cases for _, cases in sorted(ranked, key=lambda entry: -entry[0])]


def opening(evidence: Evidence) -> Candidate | None:
    """Refuse the most common first action in the first turns; None where no rollout has one."""
    firsts = [e.steps[0].action for e in evidence.baseline if e.steps and e.steps[0].action is not None]
    if not firsts:
        return None
    usual = Counter(map(signature, firsts)).most_common(1)[0][0]
    action = next(first for first in firsts if signature(first) == usual)
    text = source(_OPENING, SIGNATURE, opening=usual, closed_turns=CLOSED_TURNS)
    return Candidate(contract_source=text, rationale=f"{action} is refused in the first {CLOSED_TURNS} turns")


def usual_way(evidence: Evidence) -> Candidate | None:
    """Leave the rarest of several known ways; None where fewer than two are known."""
    return _TEMPLATES["block_calls"].build(evidence, 1.0) if len(evidence.wins) > 1 else None


def _at(template: str, magnitude: float) -> Callable[[Evidence], Candidate | None]:
    """Return the builder of a template at one magnitude."""
    return lambda evidence: _TEMPLATES[template].build(evidence, magnitude)


HABITS: tuple[Habit, ...] = (
    Habit("opening", "the usual first action is refused in the first turns", ("fixed_opening",), opening),
    Habit(
        "usual-way", "of its favourite calls only those of the rarest known win go through", ("one_path",), usual_way
    ),
    Habit(
        "favourite", "its favourite kind of call pauses after each use", ("leans_on_action",), _at("ration_calls", 0.5)
    ),
    Habit(
        "repeating",
        "a call made in the last few turns is refused",
        ("repeats_actions", "revisits_states"),
        _at("repeat_guard", 0.25),
    ),
    Habit(
        "first-try",
        "half of all first tries fail, later ones go through",
        ("one_path", "ignores_refusals", "stops_early"),
        _at("transient_failure", 0.5),
    ),
    Habit("skimming", "the news stands below a long record", ("reads_only_the_start",), _at("bury_observation", 1.0)),
    Habit("neglected-tool", "every call asks for a neglected one first", ("neglects_tool",), _at("require_first", 1.0)),
)
"""Every habit that is looked for."""


def _mean_score(tasks: Sequence[PlayedTask], flaw: str) -> float:
    scores = [task.evidence.diagnosis.scores.get(flaw, 0.0) for task in tasks if task.valid]
    return sum(scores) / len(scores) if scores else 0.0
