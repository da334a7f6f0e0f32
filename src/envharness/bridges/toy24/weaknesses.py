"""The weaknesses of the solver policy: what each one does, and how strong each one is."""

from __future__ import annotations

from pydantic import BaseModel, ConfigDict

from envharness.bridges.heuristics import Strength
from envharness.bridges.toy24.arithmetic import Operation

WEAKNESSES: dict[str, str] = {
    "favours": "leans on one operation (`favourite`): overlooks lines that do without it",
    "avoids_division": "hardly considers dividing while more than two numbers are left",
    "shallow": "looks few moves ahead: the longer a line, the more often it is overlooked",
    "never_resets": "does not take moves back: plays on or gives up where it is stuck",
    "stops_too_early": "may give up at each setback (a refused, failed or useless call, a dead end)",
    "starts_afresh": "takes back moves that it did not make itself",
    "repeats": "makes a call that failed again, unchanged, instead of another one",
    "generalises": "mistrusts a whole operation after one refused call that used it",
    "forgets": "loses numbers that the screen does not show, instead of remembering them",
    "trusts_screen": "believes an outdated screen more than its own last move",
    "ignores_long_text": "does not read beyond the first few hundred characters of a screen",
    "distrusts_hints": "ignores a hint in the text",
    "fears_fractions": "overlooks lines that pass through a fraction",
    "anchors_on_largest": "overlooks lines whose first move leaves the largest number alone",
}
"""Every weakness by name. All are options of the policy, from 0 to 1."""

WITHOUT_TEMPLATE: frozenset[str] = frozenset({"fears_fractions", "anchors_on_largest"})
"""Weaknesses that no component template was written for: finding one of these is a designer's own work."""

SHOWS_AS: dict[str, tuple[str, ...]] = {
    "favours": ("leans_on_action", "one_path", "fixed_opening"),
    "avoids_division": ("leans_on_action",),
    "never_resets": ("neglects_tool",),
    "stops_too_early": ("stops_early",),
    "starts_afresh": ("revisits_states",),
    "repeats": ("repeats_actions", "ignores_refusals"),
    "ignores_long_text": ("reads_only_the_start",),
}
"""The flaws, as a diagnosis names them, that a weakness shows as in trajectories. One not listed shows as none."""


class Weaknesses(BaseModel):
    """How strong each weakness is. The defaults win some puzzles always, some never, and few now and then."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    favourite: Operation = "*"
    favours: Strength = 0.5
    avoids_division: Strength = 0.85
    shallow: Strength = 0.1
    never_resets: Strength = 0.2
    stops_too_early: Strength = 0.4
    starts_afresh: Strength = 0.45
    repeats: Strength = 0.3
    generalises: Strength = 0.3
    forgets: Strength = 0.25
    trusts_screen: Strength = 0.6
    ignores_long_text: Strength = 0.5
    distrusts_hints: Strength = 0.45
    fears_fractions: Strength = 0.9
    anchors_on_largest: Strength = 0.3
