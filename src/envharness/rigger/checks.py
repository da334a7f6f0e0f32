"""Each free check: what it looks at, what it says, and the verdict where it fails."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TypeVar

from envharness.core.errors import HookFault, SpecError, ZygoteError
from envharness.core.trace import Episode, TraceStep
from envharness.core.types import Action, Blocked, EnvResponse, JsonDict
from envharness.rigger.records import Candidate, CandidateCheck
from envharness.rigger.validity import AGREES, first_failed, name_of_win, where_it_failed
from envharness.sandbox import HookSession, check_source, open_session

Result = TypeVar("Result")

ZYGOTE_RETRIES = 2
"""Further attempts where the sandbox's server failed."""
MACHINERY = "machinery"
"""The id of a check that our side could not carry out. It says nothing about the candidate."""


@dataclass(frozen=True)
class DryRun:
    """What a Contract does to the recorded baseline steps."""

    steps: int = 0
    blocked: int = 0
    rewritten: int = 0
    changed: int = 0
    """Responses or observations that differ from the recorded ones, the first observation included."""
    episodes: int = 0
    touched: int = 0
    """Episodes in which anything is different."""

    @property
    def effects(self) -> int:
        """How many things are different in all."""
        return self.blocked + self.rewritten + self.changed

    def __add__(self, other: DryRun) -> DryRun:
        return DryRun(
            steps=self.steps + other.steps,
            blocked=self.blocked + other.blocked,
            rewritten=self.rewritten + other.rewritten,
            changed=self.changed + other.changed,
            episodes=self.episodes + other.episodes,
            touched=self.touched + other.touched,
        )

    def __str__(self) -> str:
        return (
            f"{self.blocked} of {self.steps} recorded actions blocked, {self.rewritten} rewritten, "
            f"{self.changed} answers changed, {self.touched} of {self.episodes} rollouts touched"
        )


def patiently(work: Callable[[], Result]) -> Result:
    """Do `work`, and once or twice more where the sandbox's own server failed: that is no fault of a candidate."""
    for _ in range(ZYGOTE_RETRIES):
        try:
            return work()
        except ZygoteError:
            continue
    return work()


def check_compiles(candidate: Candidate, *, unsafe: bool = False) -> CandidateCheck:
    """Whether the Contract's source compiles and defines its class. Compiled in a guarded child, never here."""
    try:
        report = patiently(lambda: check_source(candidate.contract_source, unsafe=unsafe))
    except HookFault as fault:
        return CandidateCheck(id="compiles", passed=False, detail=fault.reason)
    return CandidateCheck(
        id="compiles", passed=True, detail=", ".join(sorted(report.overridden)) or "no hook overridden"
    )


def check_dry_run(candidate: Candidate, baseline: Sequence[Episode], *, unsafe: bool = False) -> list[CandidateCheck]:
    """Whether the hooks survive the recorded baseline steps, and whether anything is different then.

    A Stage changes the start by construction (its replay is checked on the live environment), so a candidate with one
    need not change a recorded step as well.
    """
    try:
        total = sum((patiently(lambda e=e: dry_run(candidate, e, unsafe=unsafe)) for e in baseline), DryRun())
    except (HookFault, SpecError) as fault:
        # SpecError: a recorded state that no hook can be shown. No hook can live here then, but other tasks can go on.
        return [CandidateCheck(id="dry_run", passed=False, detail=str(fault))]
    survived = CandidateCheck(id="dry_run", passed=True, detail=f"{total.steps} recorded steps")
    changes = total.effects > 0 or bool(candidate.in_env_actions)
    return [survived, CandidateCheck(id="changes_something", passed=changes, detail=str(total))]


def dry_run(candidate: Candidate, episode: Episode, *, unsafe: bool = False) -> DryRun:
    """Show one recorded episode to the hooks. Raises HookFault where they fail."""
    if episode.start is None or not candidate.contract_source:
        return DryRun()
    with open_session(candidate.contract_source, seed=candidate.contract_seed, unsafe=unsafe) as session:
        start = episode.start
        state: JsonDict = start.state or {}
        changed = 0
        if "filter_observation" in session.overridden:
            changed += session.filter_observation(start.shown, state) != start.shown
        total = DryRun(changed=changed)
        for step in episode.steps:
            if step.action is not None:
                total += _dry_step(session, step, step.action, state)
            state = step.state or {}
        return total + DryRun(episodes=1, touched=int(total.effects > 0))


def _dry_step(session: HookSession, step: TraceStep, asked: Action, state: JsonDict) -> DryRun:
    action = asked
    if "filter_action" in session.overridden:
        verdict = session.filter_action(action, state)
        if isinstance(verdict, Blocked):
            return DryRun(steps=1, blocked=1)
        action = verdict
    if action != asked:
        # What the environment would have answered to another action was never recorded.
        return DryRun(steps=1, rewritten=1)
    if step.refused or step.blocked:
        return DryRun(steps=1)
    response = EnvResponse(
        observation=step.shown,
        reward=step.reward,
        terminated=step.terminated,
        truncated=step.truncated,
        info=step.info,
    )
    proposed = session.after_transition(action, response, step.state or {})
    visible = (proposed.observation, proposed.terminated, proposed.truncated)
    return DryRun(steps=1, changed=int(visible != (response.observation, response.terminated, response.truncated)))


def check_probes(stop: Episode, idle: Episode) -> list[CandidateCheck]:
    """Whether the stack starts (a Stage replays), and whether doing nothing still loses through it."""
    if broken := next((episode for episode in (stop, idle) if not episode.valid), None):
        name = "replays" if "stage action" in broken.outcome.detail else "dry_run"
        return [_invalid(broken, name)]
    return [
        CandidateCheck(id="replays", passed=True),
        CandidateCheck(id="stop_fails", passed=not stop.success, detail=_won(stop, "stopping at once")),
        CandidateCheck(id="no_op_fails", passed=not idle.success, detail=_won(idle, "calling nothing that exists")),
    ]


def check_solvable(tried: Sequence[Episode]) -> CandidateCheck:
    """Whether one of the known wins (the reference first) still verifies through the wrapped environment."""
    won = next((episode for episode in tried if episode.success), None)
    if won is not None:
        return CandidateCheck(
            id="reference_solves", passed=True, detail=f"{name_of_win(won)} in {len(won.steps)} turns"
        )
    if lost := next((e for e in tried if not e.valid and e.outcome.reason != "component_fault"), None):
        return _invalid(lost, MACHINERY)
    reasons = "; ".join(f"{name_of_win(episode)}: {where_it_failed(episode)}" for episode in tried)
    return CandidateCheck(id="reference_solves", passed=False, detail=reasons)


def verdict_of(checks: Sequence[CandidateCheck]) -> str:
    """Return the verdict name of a failed set of checks, or an empty string where all passed."""
    failed = first_failed(checks)
    if failed is None:
        return ""
    names = {
        MACHINERY: "incomplete",
        "no_op_fails": "verifier_drift",
        "stop_fails": "verifier_drift",
        AGREES: "verifier_drift",
        "reference_solves": "unsolvable",
    }
    return names.get(failed.id, "check_failed")


def _invalid(episode: Episode, check: str) -> CandidateCheck:
    """Return the failed check, blaming the candidate only for its own faults."""
    own = episode.outcome.reason == "component_fault"
    detail = f"{episode.outcome.reason}: {episode.outcome.detail}"
    return CandidateCheck(id=check if own else MACHINERY, passed=False, detail=detail)


def _won(episode: Episode, how: str) -> str:
    return f"{how} wins" if episode.success else ""
