"""The batches of one task: which stack, policy and seeds a rollout or a probe of each phase is played with."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from envharness.core.spec import StackSpec
from envharness.core.types import Action
from envharness.rigger.config import RigConfig
from envharness.rigger.observe import TaskView
from envharness.rigger.probes import probe
from envharness.rigger.records import Candidate
from envharness.rigger.requests import Batch
from envharness.rigger.seeds import TaskSeeds
from envharness.rollouts.job import RolloutJob

IDLE_TURNS = 12
"""Turns of the probe that calls nothing that exists."""


@dataclass(frozen=True)
class TaskBatches:
    """Makes the batches of one task and designer. The phase of each is where the store files its episodes."""

    view: TaskView
    config: RigConfig
    designer_id: str

    @property
    def seeds(self) -> TaskSeeds:
        """The task's seeds."""
        return TaskSeeds(self.config.seed, self.view.task, self.designer_id)

    # Rollouts, which the policy is paid for.

    def baseline(self) -> Batch:
        """K rollouts on the base stack, the same ones for every designer."""
        return self._rollouts("rig/baseline", self.view.base_stack, self.seeds.baseline, range(self.config.rollouts))

    def round(self, number: int, stack: StackSpec, indices: range) -> Batch:
        """Fresh rollouts, of these indices, on the stack of a round's candidate."""

        def seed(index: int) -> int:
            return self.seeds.round(number, index)

        return self._rollouts(f"rig/{self.designer_id}/round-{number}", stack, seed, indices)

    def remeasured_before(self) -> Batch:
        """Fresh rollouts on the base stack, the same ones for every designer."""
        stack, seed = self.view.base_stack, self.seeds.before
        return self._rollouts("remeasure/before", stack, seed, range(self.config.remeasure), record_states=False)

    def remeasured_after(self, stack: StackSpec) -> Batch:
        """Fresh rollouts on the final stack."""
        phase, seed = f"remeasure/{self.designer_id}", self.seeds.after
        return self._rollouts(phase, stack, seed, range(self.config.remeasure), record_states=False)

    def _rollouts(
        self, phase: str, stack: StackSpec, seed: Callable[[int], int], indices: range, *, record_states: bool = True
    ) -> Batch:
        jobs = tuple(
            RolloutJob(
                task=self.view.task,
                stack=stack,
                policy=self.config.policy,
                env_seed=self.seeds.env,
                policy_seed=seed(index),
                index=index,
                limits=self.config.limits,
                record_states=record_states,
            )
            for index in indices
        )
        return Batch(phase, jobs)

    # Probes, which cost no model call.

    def stage_probe(self, number: int, actions: Sequence[Action]) -> Batch:
        """One look at where a Stage of these actions leads."""
        stack = Candidate(in_env_actions=list(actions)).apply(self.view.base_stack)
        job = self._probe(stack).model_copy(update={"record_states": True})
        return Batch(f"rig/{self.designer_id}/explore-{number}", (job,), paid=False)

    def no_effort(self, number: int, stack: StackSpec) -> Batch:
        """Two probes: the policy that stops at once, and the one that calls nothing that exists."""
        turns = min(IDLE_TURNS, self.config.limits.max_steps)
        idle = self._probe(stack, index=1, then_idle=True).model_copy(
            update={"limits": self.config.limits.model_copy(update={"max_steps": turns})}
        )
        return Batch(self._check_phase(number), (self._probe(stack), idle), paid=False)

    def known_win(self, number: int, stack: StackSpec, actions: Sequence[Action], index: int) -> Batch:
        """One probe that plays a known win."""
        return Batch(self._check_phase(number), (self._probe(stack, actions, index=index),), paid=False)

    def stored_win(self, actions: Sequence[Action], index: int) -> Batch:
        """One probe that plays another run's win on the base stack, the same one for every designer."""
        return Batch("rig/witness", (self._probe(self.view.base_stack, actions, index=index),), paid=False)

    def _check_phase(self, number: int) -> str:
        return f"rig/{self.designer_id}/check-{number}"

    def _probe(
        self, stack: StackSpec, actions: Sequence[Action] = (), *, index: int = 0, then_idle: bool = False
    ) -> RolloutJob:
        return RolloutJob(
            task=self.view.task,
            stack=stack,
            policy=probe(actions, then="idle" if then_idle else "stop"),
            env_seed=self.seeds.env,
            policy_seed=0,
            index=index,
            limits=self.config.limits,
            record_states=False,
        )
