"""Asks the verifiers again about stored episodes, which are played to their ends for it, and compares the verdicts."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Literal, cast

from pydantic import JsonValue

from envharness.core.errors import DamagedEntryError, UnknownIdError
from envharness.core.spec import StackSpec
from envharness.core.trace import Episode, Exchange, StartRecord, TraceStep
from envharness.core.types import EvaluationResult, JsonDict
from envharness.rollouts.blame import describe
from envharness.rollouts.job import RolloutJob
from envharness.rollouts.replay import Divergence, divergence_of, first_divergence, job_of, played_again, volatile_keys
from envharness.store.database import RunStore
from envharness.store.episode_rows import EpisodeNote

Verdict = Literal["same", "changed", "diverged", "unavailable", "invalid"]


@dataclass(frozen=True)
class Rescored:
    """What the verifier says of an episode now."""

    verdict: Verdict
    """`diverged`: the same decisions led somewhere else, so that `now` is about another state than `was`;
    `unavailable`: the episode could not be asked about, for `reason`; `invalid`: there was no verdict to begin with."""
    was: JsonDict | None = None
    now: JsonDict | None = None
    divergence: Divergence | None = None
    """Where the replay first took another path; in a Chain, a changed verdict of a segment may be the cause."""
    retold: Divergence | None = None
    """On the same path, the first place where an observation, a reward or an end is not as it was."""
    segment: str = ""
    """The segment of a Chain whose changed verdict led the episode elsewhere, as in traces: `0.1` is the second one."""
    reason: str = ""


def rescore_run(
    store: RunStore, *, task: str | None = None, phase: str | None = None
) -> Iterator[tuple[EpisodeNote, Rescored]]:
    """Rescore the stored episodes of a task, of a phase, or all, ordered by phase, task, index and key.

    One episode at a time is in memory. What stands in the way of one (no job kept, damage, an environment that is
    gone) makes that one `unavailable`. Raises StoreError where the database as a whole cannot be read.
    """
    declared = _VolatileKeys()
    for key in store.episode_keys(task=task, phase=phase):
        for note in store.episode_notes([key]):
            yield note, _rescored(store, note, declared)


def rescore(job: RolloutJob, episode: Episode, volatile: frozenset[str] = frozenset()) -> Rescored:
    """Play `job` to the end of `episode` and ask the verifier, which may be another than the one asked then.

    `volatile` names top-level keys of the state that may differ. Two episodes took the same path where the same actions
    reached the same environments, were accepted alike, and led to the same states (where none were recorded, to the
    same data of observations). Raises RuntimeError inside a running event loop.
    """
    if not episode.valid:
        return Rescored("invalid")
    again = played_again(job, episode)
    was, now = _as_json(episode.evaluation), _as_json(again.evaluation)
    # What comes after the last recorded turn is the recording's end, and no path of the episode.
    within = again.model_copy(update={"steps": again.steps[: len(episode.steps)]})
    elsewhere = divergence_of(_path(episode, volatile), _path(within, volatile))
    if not again.valid and (again.start is None or elsewhere is None or elsewhere.step == len(again.steps)):
        return Rescored("unavailable", was, reason=f"{again.outcome.reason}: {again.outcome.detail}")
    if elsewhere is None:
        retold = first_divergence(episode, within, volatile, parts=("start", "steps"))
        return Rescored("same" if was == now else "changed", was, now, retold=retold)
    return _judged_otherwise(job, episode, again, elsewhere) or Rescored("diverged", was, now, elsewhere)


class _VolatileKeys:
    """The volatile keys of the stack asked for last: in the order of a run, equal stacks come one after the other."""

    def __init__(self) -> None:
        self._stack: StackSpec | None = None
        self._keys = frozenset[str]()

    def of(self, stack: StackSpec) -> frozenset[str]:
        if stack != self._stack:
            self._keys = volatile_keys(stack)
            self._stack = stack
        return self._keys


def _rescored(store: RunStore, note: EpisodeNote, declared: _VolatileKeys) -> Rescored:
    if note.outcome == "invalid":
        return Rescored("invalid")
    try:
        episode, job = store.get_episode(note.key), job_of(store, note.key)
    except (DamagedEntryError, UnknownIdError) as error:
        return Rescored("unavailable", reason=str(error))
    if episode is None:
        return Rescored("unavailable", reason="the episode was removed meanwhile")
    try:
        volatile = declared.of(job.stack)
    except Exception as error:  # noqa: BLE001  a constructor may raise anything, and it costs this episode alone
        return Rescored("unavailable", _as_json(episode.evaluation), reason=describe(error, doing="making the stack"))
    return rescore(job, episode, volatile)


def _judged_otherwise(job: RolloutJob, episode: Episode, again: Episode, elsewhere: Divergence) -> Rescored | None:
    """Return `changed` where the paths part because a Chain's segment ended here, and its verdict is another now."""
    turn = elsewhere.step
    if turn is None or turn >= min(len(episode.steps), len(again.steps)):
        return None
    then, now = episode.steps[turn], again.steps[turn]
    if not then.raw or not _ended_segment(then) or _sent(then.raw) != _sent(now.raw):
        return None
    if not _ended_segment(now):
        # Asked at the same moment: here the segment goes on, and what it comes to is nothing that was judged.
        again = played_again(job, episode.model_copy(update={"steps": episode.steps[: turn + 1]}))
    segment = then.raw[-1].segment
    verdicts = [_of_segment(one.evaluation, segment) for one in (episode, again)]
    if None in verdicts or verdicts[0] == verdicts[1]:
        return None
    return Rescored(
        "changed", _as_json(episode.evaluation), _as_json(again.evaluation), divergence=elsewhere, segment=segment
    )


def _ended_segment(step: TraceStep) -> bool:
    """Whether the environment that acted in this turn was over then, by itself or by a Contract in its segment."""
    response = step.raw[-1].response if step.raw else None
    change = step.info.get("chain")
    by_itself = response is not None and (response.terminated or response.truncated)
    return by_itself or (isinstance(change, dict) and change.get("over") is True)


def _of_segment(evaluation: EvaluationResult | None, segment: str) -> JsonDict | None:
    """Return what a Chain's verdict says of one of its segments; None where it says nothing, or there is no Chain."""
    entry: JsonValue = None if evaluation is None else {"metrics": evaluation.metrics}
    for index in map(int, segment.split(".")[1:]):
        metrics = entry.get("metrics") if isinstance(entry, dict) else None
        entries = metrics.get("segments") if isinstance(metrics, dict) else None
        entry = entries[index] if isinstance(entries, list) and index < len(entries) else None
    if not isinstance(entry, dict) or "visited" not in entry:
        return None
    return {name: entry.get(name) for name in ("visited", "success", "score", "metrics")}


def _path(episode: Episode, volatile: frozenset[str]) -> JsonDict:
    """Return where an episode went: what reached which environment, what was accepted, and the states between."""
    start = episode.start
    return {
        "start": None if start is None else {"sent": _sent(start.replayed), **_place(start, volatile)},
        "steps": [
            {
                "sent": _sent(step.raw),
                "refused": bool(step.refused),
                "blocked": bool(step.blocked),
                "starts": [begun.segment for begun in step.starts],
                **_place(step, volatile),
            }
            for step in episode.steps
        ],
    }


def _place(at: StartRecord | TraceStep, volatile: frozenset[str]) -> JsonDict:
    if at.state is None:
        return {"shown": {"data": at.shown.data}}
    return {"state": {key: value for key, value in at.state.items() if key not in volatile}}


def _sent(exchanges: list[Exchange]) -> list[JsonValue]:
    return [{"segment": one.segment, "action": one.action.model_dump(mode="json")} for one in exchanges]


def _as_json(evaluation: EvaluationResult | None) -> JsonDict | None:
    return None if evaluation is None else cast("JsonDict", evaluation.model_dump(mode="json"))
