"""The seeds of a run, by name: constant worlds, fresh policies, and streams that no other phase uses."""

from __future__ import annotations

from dataclasses import dataclass

from envharness.core.seeding import derive_seed


@dataclass(frozen=True)
class TaskSeeds:
    """Every seed that one task of a run uses."""

    root: int
    task: str
    designer: str

    @property
    def env(self) -> int:
        """The world's seed: one for all rollouts of the task, whoever designs."""
        return derive_seed(self.root, "env", self.task)

    @property
    def design(self) -> int:
        """The root of the designer's own choices."""
        return derive_seed(self.root, "design", self.task, self.designer)

    def baseline(self, index: int) -> int:
        """The policy's seed in the baseline: the same for every designer, so that all start from the same evidence."""
        return derive_seed(self.root, "policy", self.task, "baseline", index)

    def round(self, number: int, index: int) -> int:
        """The policy's seed in a round."""
        return derive_seed(self.root, "policy", self.task, self.designer, "round", number, index)

    def before(self, index: int) -> int:
        """The policy's seed in the re-measurement of the base stack."""
        return derive_seed(self.root, "policy", self.task, "remeasure", "before", index)

    def after(self, index: int) -> int:
        """The policy's seed in the re-measurement of the final stack."""
        return derive_seed(self.root, "policy", self.task, self.designer, "remeasure", "after", index)

    def contract(self, content: str) -> int:
        """The hooks' random stream: fixed for a candidate of this content, whatever round plays it. In [0, 2**31)."""
        return derive_seed(self.root, "contract", self.task, self.designer, content) >> 32
