"""Whether a reshaped task can still be judged: what episodes say about it, as checks with evidence. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from itertools import groupby

from envharness.components.fingerprints import recorded_fingerprints
from envharness.core.canonical import canonical_json
from envharness.core.messages import counted
from envharness.core.trace import Episode, TraceStep
from envharness.rigger.records import CandidateCheck

AGREES = "verdict_agrees"
"""The id of the check that the verdicts are what the last states say."""
ONE_START = "one_start"
"""The id of the check that a Stage leads to one and the same state each time."""
MAX_WITNESSES = 4
"""Known wins tried through a candidate before stored ones are, or it counts as unsolvable."""
_SHOWN = 300
"""Characters of a state or a reason that evidence quotes."""


def check_agreement(played: Iterable[tuple[str, Episode]], kind: str) -> list[CandidateCheck]:
    """Hold each verdict against what the environment reads off its own last state.

    `played` names each episode, and `kind` says what they all are, for the detail.


    Returns no check where no state tells whether the goal is reached. One episode in which the two part is enough: what
    is wrong with the judge is wrong however rarely it shows.
    """
    read = [(name, episode) for name, episode in played if episode.goal is not None]
    drifted = [evidence for name, episode in read if (evidence := drift(episode, name))]
    if not read:
        return []
    if drifted:
        more = f" (and {counted(len(drifted) - 1, f'more {kind}')})" if len(drifted) > 1 else ""
        return [CandidateCheck(id=AGREES, passed=False, detail=drifted[0] + more)]
    return [CandidateCheck(id=AGREES, passed=True, detail=counted(len(read), kind))]


def check_rollouts(episodes: Sequence[Episode]) -> list[CandidateCheck]:
    """Hold a batch of rollouts to one start, where Stages say which it was, and its verdicts to its last states."""
    return [
        *check_one_start(episodes),
        *check_verdicts(episodes),
    ]


def check_one_start(episodes: Sequence[Episode]) -> list[CandidateCheck]:
    """Whether every Stage led to one state in all episodes. Returns no check where none recorded where it led."""
    first: dict[tuple[str, str], tuple[Episode, tuple[str, ...]]] = {}
    for episode, recorded in recorded_fingerprints(episodes):
        for key, digests in recorded.items():
            before, expected = first.setdefault(key, (episode, digests))
            if digests != expected:
                action = next((n for n, (a, b) in enumerate(zip(expected, digests, strict=False)) if a != b), 0)
                detail = (
                    f"action {action} of {key[0]} led to one state in episode {before.index} of the batch and to "
                    f"another in episode {episode.index}"
                )
                return [CandidateCheck(id=ONE_START, passed=False, detail=detail)]
    if not first:
        return []
    return [CandidateCheck(id=ONE_START, passed=True, detail=counted(len(episodes), "episode"))]


def check_verdicts(episodes: Sequence[Episode]) -> list[CandidateCheck]:
    """Hold the verdicts of a batch of rollouts to its last states."""
    return check_agreement(((f"rollout {episode.index}", episode) for episode in episodes), "rollout")


def first_failed(checks: Iterable[CandidateCheck]) -> CandidateCheck | None:
    """Return the check that decides, or None where all passed."""
    return next((check for check in checks if not check.passed), None)


def drift(episode: Episode, name: str) -> str:
    """Return how verdict and last state of an episode contradict each other, with the state; empty where they agree."""
    goal = episode.goal
    if goal is None or goal.reached == episode.success:
        return ""
    said = (
        "the verifier calls it a success, but the goal is not reached in the last state"
        if episode.success
        else "the verifier calls it a failure, but the goal is reached in the last state"
    )
    state = "" if goal.state is None else f" {_cut(canonical_json(goal.state))}"
    return f"{name} of {counted(len(episode.steps), 'turn')}: {said}{state}"


def name_of_win(episode: Episode) -> str:
    """Return what evidence calls the episode of a known win: stored wins of another run are numbered behind."""
    stored = episode.index - MAX_WITNESSES
    return f"known win {episode.index}" if stored < 0 else f"another run's win {stored}"


def where_it_failed(episode: Episode) -> str:
    """Say at which turn a known win came to a stop, and what was refused there; else how the episode was lost."""
    if not episode.valid:
        return f"{episode.outcome.reason}: {_cut(episode.outcome.detail)}"
    asked = [step for step in episode.steps if step.action is not None]
    if asked and (why := _why_nothing_happened(asked[-1])):
        # Tried again and again, so the turn that counts is the first of the series.
        tries = [list(same) for _, same in groupby(asked, key=lambda step: (step.action, _failed(step)))][-1]
        return f"turn {tries[0].step}, {asked[-1].action}: {why} ({counted(len(tries), 'time')})"
    detail = f" ({episode.outcome.detail})" if episode.outcome.detail else ""
    return f"{episode.outcome.reason} after {counted(len(asked), 'turn')} without a success{detail}"


def _failed(step: TraceStep) -> bool:
    return bool(_why_nothing_happened(step))


def _why_nothing_happened(step: TraceStep) -> str:
    if step.blocked:
        return f"blocked: {_cut(step.blocked)}"
    if step.refused:
        return f"refused: {_cut(step.refused)}"
    return f"no effect: {_cut(step.shown.text)}" if step.info.get("ineffective") else ""


def _cut(text: str) -> str:
    line = " ".join(text.split())
    return line if len(line) <= _SHOWN else f"{line[: _SHOWN - 3]}..."
