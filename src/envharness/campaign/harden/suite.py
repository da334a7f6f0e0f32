"""The suite as it was played once: each task with its rollouts and known wins, and what a variant makes of a task."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import cached_property

from envharness.campaign.harden.config import HardenConfig
from envharness.campaign.harden.records import Variant
from envharness.core.spec import ChainedNode, StackSpec
from envharness.core.trace import Episode
from envharness.core.types import Action
from envharness.rigger.config import AcceptanceConfig
from envharness.rigger.designers.base import Evidence
from envharness.rigger.diagnose import diagnose
from envharness.rigger.measurement import measure
from envharness.rigger.observe import TaskView, policy_wins, spell_all
from envharness.rigger.patterns import ActionPattern
from envharness.rigger.records import Candidate
from envharness.rigger.seeds import TaskSeeds

Win = tuple[Action, ...]


def distinct(wins: Sequence[Win]) -> list[Win]:
    """Return each of the action lists once, in order."""
    return list({spell_all(win): win for win in reversed(wins)}.values())[::-1]


@dataclass(frozen=True)
class PlayedTask:
    """One task and its rollouts as it is."""

    view: TaskView
    episodes: tuple[Episode, ...]
    """All K of them, in index order, invalid ones included."""
    keys: tuple[str, ...]
    config: HardenConfig

    @property
    def task(self) -> str:
        """The task's id."""
        return self.view.task

    @cached_property
    def valid(self) -> tuple[Episode, ...]:
        """The rollouts that say something about the policy."""
        return tuple(episode for episode in self.episodes if episode.valid)

    @cached_property
    def wins(self) -> tuple[Win, ...]:
        """Action lists known to win from the start of the task, shortest first: the policy's own and the reference."""
        own, reference = policy_wins(self.valid), self.view.reference
        return own if reference is None else tuple(sorted(distinct([reference, *own]), key=len))

    @cached_property
    def evidence(self) -> Evidence:
        """The rollouts as a template of the rigger reads them."""
        measured = measure(self.episodes, self.keys)
        return Evidence(
            task=self.task,
            seed=TaskSeeds(self.config.seed, self.task, "harden").design,
            direction="harden",
            band=self.config.suite.band,
            acceptance=AcceptanceConfig(),
            max_steps=self.config.limits.max_steps,
            tools=self.view.tools,
            state_schema=self.view.state_schema,
            baseline=self.valid,
            measured=measured,
            diagnosis=diagnose(self.valid, self.view.tools, measured, "harden"),
            wins=self.wins,
        )


@dataclass(frozen=True)
class Case:
    """One variant of one task."""

    variant: Variant
    task: PlayedTask
    candidate: Candidate = field(default_factory=Candidate)
    """What is put on the task; empty for a chained case."""
    partner: PlayedTask | None = None
    """The task that a chained case goes on with."""
    avoids: ActionPattern | None = None
    """The kind of call that is refused: known wins with fewer of these are tried first."""

    @property
    def name(self) -> str:
        """The name of this case among all cases of the run."""
        return f"{self.variant.id} {self.task.task}"

    @property
    def stack(self) -> StackSpec:
        """The stack that is played."""
        base = self.task.view.base_stack
        if self.partner is None:
            return self.candidate.apply(base)
        segments = (base.stack, self.partner.view.base_stack.stack)
        # Tasks of one bridge may offer one tool with other parameters each; the policy is to find it under its name.
        return StackSpec(stack=ChainedNode(state={"tool_clashes": "shared"}, segments=segments))
