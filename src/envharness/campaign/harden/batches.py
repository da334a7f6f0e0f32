"""The batches of a hardening run: which stack, policy, seeds and limits its rollouts and probes are played with."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from envharness.campaign.harden.config import HardenConfig
from envharness.campaign.harden.suite import Case
from envharness.core.policy import PolicySpec
from envharness.core.spec import StackSpec
from envharness.core.types import Action
from envharness.rigger.observe import TaskView
from envharness.rigger.probes import probe
from envharness.rigger.requests import Batch
from envharness.rigger.seeds import TaskSeeds
from envharness.rollouts.job import Limits, RolloutJob

BASELINE = "harden/baseline"
MOST_SECONDS = 1e9
"""The largest limit in seconds that there is."""


@dataclass(frozen=True)
class HardenBatches:
    """Makes batches. The phase of each is where the store files its episodes.

    The rollouts of a variant have the policy seeds of the baseline: what differs between two of one number is the
    variant alone.
    """

    config: HardenConfig

    def baseline(self, view: TaskView) -> Batch:
        """K rollouts of the task as it is."""
        return Batch(BASELINE, self._rollouts(view.task, view.base_stack, self.config.limits, record_states=True))

    def variant(self, case: Case) -> Batch:
        """K rollouts of a case."""
        jobs = self._rollouts(case.task.task, case.stack, self._limits(case), record_states=False)
        return Batch(f"harden/{case.variant.id}", jobs)

    def known_win(self, case: Case, actions: Sequence[Action], index: int) -> Batch:
        """One probe that plays a known win in the case and then stops; without actions it stops at once."""
        job = self._job(
            case.task.task, case.stack, self._limits(case), policy=probe(actions), policy_seed=0, index=index
        )
        return Batch(f"harden/{case.variant.id}/check", (job,), paid=False)

    def _rollouts(self, task: str, stack: StackSpec, limits: Limits, *, record_states: bool) -> tuple[RolloutJob, ...]:
        seeds = TaskSeeds(self.config.seed, task, "harden")
        jobs = (
            self._job(task, stack, limits, policy=self.config.policy, policy_seed=seeds.baseline(index), index=index)
            for index in range(self.config.rollouts)
        )
        return tuple(job.model_copy(update={"record_states": record_states}) for job in jobs)

    def _job(
        self, task: str, stack: StackSpec, limits: Limits, *, policy: PolicySpec, policy_seed: int, index: int
    ) -> RolloutJob:
        return RolloutJob(
            task=task,
            stack=stack,
            policy=policy,
            env_seed=TaskSeeds(self.config.seed, task, "harden").env,
            policy_seed=policy_seed,
            index=index,
            limits=limits,
            record_states=False,
        )

    def _limits(self, case: Case) -> Limits:
        """Return the limits of a case: two tasks in one episode may use what two episodes may."""
        limits = self.config.limits
        if case.partner is None:
            return limits
        tokens, shown = limits.policy_tokens, limits.observation_bytes
        doubled = {
            "max_steps": 2 * limits.max_steps,
            "policy_tokens": None if tokens is None else 2 * tokens,
            "observation_bytes": None if shown is None else 2 * shown,
            "episode_seconds": min(2 * limits.episode_seconds, MOST_SECONDS),
        }
        return limits.model_copy(update=doubled)
