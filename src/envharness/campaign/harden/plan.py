"""The plans of a hardening run: a task as it is, and one variant of it. Sent the same replies they come to the same."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from itertools import product

from envharness.campaign.harden.batches import HardenBatches
from envharness.campaign.harden.config import HardenConfig
from envharness.campaign.harden.records import CaseResult, Status
from envharness.campaign.harden.suite import Case, PlayedTask, Win, distinct
from envharness.campaign.harden.tally import tally, tally_in_turn
from envharness.core.trace import Episode
from envharness.rigger.checks import MACHINERY, check_dry_run, check_solvable
from envharness.rigger.free_checks import witnesses
from envharness.rigger.measurement import component_fault
from envharness.rigger.observe import TaskView
from envharness.rigger.records import CandidateCheck
from envharness.rigger.requests import Work, play

MAX_WITNESSES = 8
"""Known wins tried in a case before it counts as unsolvable."""


def baseline_plan(view: TaskView, config: HardenConfig) -> Work[PlayedTask]:
    """Play a task as it is."""
    batch = HardenBatches(config).baseline(view)
    episodes = yield from play(batch)
    return PlayedTask(view, tuple(episodes), tuple(job.key for job in batch.jobs), config)


@dataclass(frozen=True)
class CasePlanner:
    """Plans one case: what costs nothing first, rollouts only where they can tell something."""

    case: Case
    config: HardenConfig
    unsafe_hooks: bool = False
    further_wins: dict[str, tuple[Win, ...]] = field(default_factory=dict[str, tuple[Win, ...]])
    """Task → wins that other variants brought to light."""

    def plan(self) -> Work[CaseResult]:
        """Check whether it changes anything and can be won, then play it."""
        if not self._result("played", "").baseline.valid:
            return self._result(
                "invalid", "no rollout of the task as it is is valid, so there is nothing to compare with"
            )
        if (untouched := self._dry_run()) is not None:
            return untouched
        if self.case.candidate.in_env_actions and (no_start := (yield from self._start())) is not None:
            return no_start
        solvable = yield from self._known_wins()
        if solvable is not None and not solvable.passed:
            ours = solvable.id == MACHINERY
            return self._result("invalid" if ours else "unsolvable", solvable.detail, verified=None if ours else False)
        batch = HardenBatches(self.config).variant(self.case)
        episodes = yield from play(batch)
        keys = tuple(job.key for job in batch.jobs)
        return self._measured(episodes, keys, verified=True if solvable else None)

    def _dry_run(self) -> CaseResult | None:
        """Show the recorded steps to the hooks; a result where that settles the case."""
        if not self.case.candidate.contract_source:
            return None
        checks = check_dry_run(self.case.candidate, self.case.task.valid, unsafe=self.unsafe_hooks)
        failed = next((check for check in checks if not check.passed), None)
        if failed is None:
            return None
        return self._result("unaffected" if failed.id == "changes_something" else "invalid", failed.detail)

    def _start(self) -> Work[CaseResult | None]:
        """Look where a Stage leads; a result where its start is none, or is the end."""
        [looked] = yield from play(HardenBatches(self.config).known_win(self.case, (), 0))
        if looked.success:
            return self._result("not_applicable", "it starts where the task is won already")
        if looked.valid:
            return None
        own = looked.outcome.reason == "component_fault"
        return self._result("not_applicable" if own else "invalid", looked.outcome.detail)

    def _known_wins(self) -> Work[CandidateCheck | None]:
        """Play known wins until one verifies; None where none is known."""
        batches = HardenBatches(self.config)
        tried: list[Episode] = []
        for index, actions in enumerate(self._witnesses()[:MAX_WITNESSES]):
            tried += yield from play(batches.known_win(self.case, actions, index))
            if tried[-1].success:
                break
        return check_solvable(tried) if tried else None

    def _witnesses(self) -> list[Win]:
        """Return action lists that might win, the most promising first: those that ask least for what is refused."""
        case = self.case
        if case.partner is not None:
            pairs = product(self._wins(case.task), self._wins(case.partner))
            return sorted((first + second for first, second in pairs), key=len)
        known = witnesses(case.candidate, None, self._wins(case.task))
        refused = case.avoids
        if refused is None:
            return known
        return sorted(known, key=lambda win: sum(map(refused.matches, win)))

    def _wins(self, task: PlayedTask) -> list[Win]:
        return distinct([*self.further_wins.get(task.task, ()), *task.wins])

    def _measured(self, episodes: Sequence[Episode], keys: tuple[str, ...], *, verified: bool | None) -> CaseResult:
        played = tally(episodes)
        result = self._result("played", self.case.candidate.rationale, verified=verified)
        result = result.model_copy(update={"played": played, "episodes": keys})
        if fault := component_fault(episodes):
            return result.model_copy(update={"status": "invalid", "detail": f"the component failed: {fault}"})
        if not played.valid:
            outcome = episodes[0].outcome
            detail = f"no rollout is valid: {outcome.reason}: {outcome.detail}"
            return result.model_copy(update={"status": "invalid", "detail": detail})
        return result

    def _result(self, status: Status, detail: str, *, verified: bool | None = None) -> CaseResult:
        case = self.case
        baseline = (
            tally(case.task.episodes)
            if case.partner is None
            else tally_in_turn(case.task.episodes, case.partner.episodes)
        )
        return CaseResult(
            variant=case.variant.id,
            task=case.task.task,
            status=status,
            detail=detail,
            verified=verified,
            baseline=baseline,
            stack=case.stack,
        )
