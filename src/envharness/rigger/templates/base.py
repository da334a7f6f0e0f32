"""What a template is: a parametrised component, the flaws it answers, and a magnitude from 0 to 1."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from textwrap import dedent
from typing import Any, Literal, cast

from envharness.core.seeding import derive_seed
from envharness.rigger.designers.base import Evidence
from envharness.rigger.records import Candidate


@dataclass(frozen=True)
class Template:
    """One family of components. It knows no benchmark: schemas, state view and trajectories are all it reads."""

    id: str
    summary: str
    """One line for the reader of a report."""
    direction: Literal["harden", "scaffold"]
    """Whether more magnitude means a lower or a higher success rate."""
    flaws: tuple[str, ...]
    """The flaws it answers; see `envharness.rigger.flaws`."""
    build: Callable[[Evidence, float], Candidate | None]
    """Make a candidate of a magnitude in [0, 1], or None where the evidence offers nothing to work with. Larger
    magnitudes extend smaller ones: what fails at 0.3 fails at 0.5, too."""
    first: float = 0.5
    """The magnitude to begin with, where nothing is known."""
    appeal: float = 0.0
    """Added to the strength of its flaws when templates are ranked."""


def key_of(evidence: Evidence, template: str) -> str:
    """Return the key of a template's fixed choices for a task: the same at every magnitude and in every rollout."""
    return f"{derive_seed(evidence.seed, 'key', template) >> 32:08x}"


HITS = dedent('''\
    def hits(*what):
        """Whether `what` is among the share chosen for good: the same in every rollout, so no coin is thrown."""
        return random.Random("|".join(map(str, (KEY, *what)))).random() < SHARE
    ''')
"""Source that chooses a fixed share of things; it wants `random` imported and KEY and SHARE defined."""

SIGNATURE = dedent('''\
    def signature(action):
        """One line that equal actions share."""
        return f"{action.name} {sorted(action.kwargs.items())}"
    ''')

MATCHES = dedent('''\
    def matches(action):
        """Whether the action is of the kind that this contract is about."""
        if action.name != TOOL or not ARGUMENT:
            return action.name == TOOL
        value = action.kwargs.get(ARGUMENT)
        return (value.split() or [""])[0] == WORD if isinstance(value, str) else value == WORD
    ''')


CORE = dedent('''\
    def core(env_state):
        """The state without its counters, so that coming back to a place, or not leaving it, is noticed."""
        kept = [key for key in env_state if key in TELLING or isinstance(env_state[key], (str, bool, list, dict))]
        return {key: env_state[key] for key in kept}
    ''')
"""Source that reduces a state to what does not count turns; it wants TELLING, the numbers that are no counters."""


def source(text: str, /, *parts: str, **values: Any) -> str:
    """Return Contract source: constants on top, then the shared functions, then the class.

    `text` is the class; each of `values` becomes a constant in capitals, written as a Python literal.
    """
    constants = "\n".join(f"{name.upper()} = {_literal(value)}" for name, value in values.items())
    wants_random = any("random." in part for part in (*parts, text))
    head = "import random\n\n" if wants_random else ""
    blocks = [f"{head}{constants}".strip(), *(part.strip() for part in parts), dedent(text).strip()]
    return "\n\n\n".join(block for block in blocks if block) + "\n"


def _literal(value: object) -> str:
    """Write a value as Python; a list with one item a line."""
    if not isinstance(value, list) or not value:
        return repr(cast("object", value))
    return "[\n" + "".join(f"    {item!r},\n" for item in cast("list[object]", value)) + "]"
