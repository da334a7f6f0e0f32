"""The free checks of a candidate as one work: in order of cost, up to the first that fails."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from envharness.core.errors import SpecError
from envharness.core.spec import StackSpec
from envharness.core.trace import Episode
from envharness.core.types import Action
from envharness.rigger.batches import TaskBatches
from envharness.rigger.checks import check_compiles, check_dry_run, check_probes, check_solvable, verdict_of
from envharness.rigger.observe import policy_wins
from envharness.rigger.records import NULL_DESIGNER, Candidate, CandidateCheck
from envharness.rigger.requests import Work, play
from envharness.rigger.validity import MAX_WITNESSES, check_agreement, check_one_start, name_of_win

Checks = Work[list[CandidateCheck]]


@dataclass(frozen=True)
class FreeChecks:
    """Checks the candidates of one task. Nothing here costs a rollout of the policy or a model call."""

    batches: TaskBatches
    baseline: tuple[Episode, ...]
    unsafe_hooks: bool = False

    def run(self, candidate: Candidate, number: int) -> Checks:
        """Check a candidate of round `number`. The null alone may change nothing: it does so by definition."""
        if not candidate.contract_source and not candidate.in_env_actions:
            is_null = self.batches.designer_id == NULL_DESIGNER
            detail = "the null changes nothing by definition" if is_null else "the candidate is empty"
            return [CandidateCheck(id="changes_something", passed=is_null, detail=detail)]
        checks: list[CandidateCheck] = []
        if candidate.contract_source:
            checks.append(check_compiles(candidate, unsafe=self.unsafe_hooks))
            if verdict_of(checks):
                return checks
        checks += check_dry_run(candidate, self.baseline, unsafe=self.unsafe_hooks)
        if verdict_of(checks):
            return checks
        try:
            stack = candidate.apply(self.batches.view.base_stack)
        except SpecError as error:
            return [*checks, CandidateCheck(id="replays", passed=False, detail=str(error))]
        stop, idle = yield from play(self.batches.no_effort(number, stack))
        checks += check_probes(stop, idle)
        if verdict_of(checks):
            return checks
        tried = yield from self._known_wins(candidate, stack, number)
        checks += check_one_start([stop, idle, *tried])
        played = [("stopping at once", stop), ("calling nothing that exists", idle)]
        played += [(name_of_win(episode), episode) for episode in tried]
        checks += check_agreement(played, "probe")
        if tried and not verdict_of(checks):
            checks.append(check_solvable(tried))
        return checks

    def _known_wins(self, candidate: Candidate, stack: StackSpec, number: int) -> Work[list[Episode]]:
        """Play the known wins through the candidate until one verifies."""
        known = witnesses(candidate, self.batches.view.reference, policy_wins(self.baseline))
        tried: list[Episode] = []
        for index, actions in enumerate(known[:MAX_WITNESSES]):
            tried += yield from play(self.batches.known_win(number, stack, actions, index))
            if tried[-1].success:
                return tried
        return tried + (yield from self._stored_wins(candidate, stack, number))

    def _stored_wins(self, candidate: Candidate, stack: StackSpec, number: int) -> Work[list[Episode]]:
        """Play another run's wins through the candidate until one verifies: those that win here without it."""
        tried: list[Episode] = []
        for index, win in enumerate(self.batches.view.stored_wins):
            [plain] = yield from play(self.batches.stored_win(win, index))
            if not plain.success:
                continue
            for actions in witnesses(candidate, win, ()):
                place = MAX_WITNESSES + len(tried)
                tried += yield from play(self.batches.known_win(number, stack, actions, place))
                if tried[-1].success:
                    return tried
        return tried


def witnesses(
    candidate: Candidate, reference: Sequence[Action] | None, wins: Sequence[Sequence[Action]]
) -> list[tuple[Action, ...]]:
    """Return action lists that should win through the candidate, the most telling first, each once.

    A Stage moves the start along `prefix`: where a known win begins with it, its rest must still win. A candidate may
    name actions that its own conditions ask for first (parameter `opens_with`).
    """
    known = ([tuple(reference)] if reference else []) + [tuple(win) for win in wins]
    prefix = tuple(candidate.in_env_actions)
    rests = [win[len(prefix) :] for win in known if prefix and win[: len(prefix)] == prefix]
    opening = candidate.parameters.get("opens_with")
    opened = tuple(Action.model_validate(action) for action in opening) if isinstance(opening, list) else ()
    options = [*rests, *((*opened, *win) for win in known if opened), *known]
    return [actions for index, actions in enumerate(options) if actions not in options[:index]]
