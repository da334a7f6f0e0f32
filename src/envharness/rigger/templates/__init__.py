"""The template library: parametrised components that work on any bridge."""

from envharness.rigger.templates.base import Template
from envharness.rigger.templates.block import BLOCK
from envharness.rigger.templates.detour import DETOUR
from envharness.rigger.templates.guard_ending import GUARD_ENDING
from envharness.rigger.templates.hint import HINT
from envharness.rigger.templates.observation import OBSERVATION
from envharness.rigger.templates.prefix import PREFIX
from envharness.rigger.templates.ration import RATION
from envharness.rigger.templates.remind import REMIND
from envharness.rigger.templates.repeat_guard import REPEAT_GUARD
from envharness.rigger.templates.require import REQUIRE
from envharness.rigger.templates.transient import TRANSIENT

__all__ = ["LIBRARY", "Template"]

LIBRARY: tuple[Template, ...] = (
    TRANSIENT,
    BLOCK,
    RATION,
    REQUIRE,
    REPEAT_GUARD,
    *OBSERVATION,
    DETOUR,
    HINT,
    PREFIX,
    GUARD_ENDING,
    *REMIND,
)
