"""The weaknesses of the household policy: what each one does, and how strong each one is."""

from __future__ import annotations

from pydantic import BaseModel, ConfigDict

from envharness.bridges.heuristics import Strength

WEAKNESSES: dict[str, str] = {
    "visible_only": "for the whole episode, never opens anything: neither to look into it nor to put something in",
    "misuses_stove": "for the whole episode, heats on a stove burner, and hardly ever thinks of the microwave",
    "wrong_instance": "for the whole episode, of two things to be placed it takes the one it placed already",
    "skips_preparation": "for the whole episode, leaves out cleaning, heating or cooling",
    "stops_early": "may give up at each setback (a command that failed or was refused, a search that found nothing)",
    "ignores_errors": "repeats a command that just failed, unchanged, instead of another one",
    "forgets_goal": "loses the goal in long texts and late in long episodes, and wanders until it reads it again",
    "loops": "goes back to where it just was instead of going on with its search",
    "overlooks": "misses what it looks for in a long list of objects",
    "distrusts_hints": "ignores a hint in the text",
}
"""Every weakness by name. All are options of the policy, from 0 to 1."""

WITHOUT_TEMPLATE: frozenset[str] = frozenset({"misuses_stove", "wrong_instance"})
"""Weaknesses that no component template was written for: finding one of these is a designer's own work."""

SHOWS_AS: dict[str, tuple[str, ...]] = {
    "visible_only": ("revisits_states", "runs_out_of_steps"),
    "stops_early": ("stops_early",),
    "ignores_errors": ("repeats_actions", "ignores_refusals"),
    "forgets_goal": ("revisits_states", "reads_only_the_start"),
    "loops": ("repeats_actions", "revisits_states"),
}
"""The flaws, as a diagnosis names them, that a weakness shows as in trajectories. One not listed shows as none."""


class Weaknesses(BaseModel):
    """How strong each weakness is. The defaults win most games always or never, depending on what the game asks for."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    visible_only: Strength = 0.97
    misuses_stove: Strength = 0.97
    wrong_instance: Strength = 0.97
    skips_preparation: Strength = 0.02
    stops_early: Strength = 0.6
    ignores_errors: Strength = 0.35
    forgets_goal: Strength = 0.6
    loops: Strength = 0.05
    overlooks: Strength = 0.1
    distrusts_hints: Strength = 0.4
