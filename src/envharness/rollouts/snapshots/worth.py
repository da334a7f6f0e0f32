"""Whether forking pays: the CPU time that resets of one start have cost so far, against what staging would."""

from __future__ import annotations

from dataclasses import dataclass

START_SECONDS = 1.0
"""What a staging process costs beyond the environment's own first reset: an interpreter and imports."""
SLOW_SECONDS = 0.03
"""A reset quicker than this is not worth a fork and the frames of an episode (`python -m benchmarks snapshots`)."""


@dataclass
class Resets:
    """The resets of one start in this process. Pays once as much was lost on it as staging would have cost."""

    first: float
    """Seconds the first took; where it loaded something that stays loaded, later ones are quicker."""
    later: float = 0.0
    """Seconds that all later ones took together."""
    last: float = 0.0

    def add(self, seconds: float) -> None:
        """Take one more reset."""
        self.later += seconds
        self.last = seconds

    @property
    def worth_staging(self) -> bool:
        """Whether to start a staging process now. Never costs more than about twice what the best choice would have."""
        return self.last >= SLOW_SECONDS and self.later >= self.first + START_SECONDS
