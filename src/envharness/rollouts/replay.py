"""Replays an episode's recorded decisions on its stack, and says where it comes apart."""

from __future__ import annotations

from collections.abc import Iterator
from typing import cast

from pydantic import BaseModel, ConfigDict, JsonValue, ValidationError

from envharness.core.canonical import canonical_json
from envharness.core.errors import DamagedEntryError, UnknownIdError
from envharness.core.messages import one_line
from envharness.core.policy import Decision, Turn
from envharness.core.spec import StackSpec
from envharness.core.trace import Episode
from envharness.core.types import JsonDict
from envharness.rollouts.episode import run_episode
from envharness.rollouts.job import RolloutJob
from envharness.store.content import episode_content
from envharness.store.database import RunStore

_SHOWN = 200
"""Characters of either value that a divergence keeps."""


class Divergence(BaseModel):
    """The first difference between a stored episode and its replay."""

    model_config = ConfigDict(frozen=True)

    step: int | None
    """0-based turn; None where the start, the verdict or the outcome differs."""
    field: str
    """Dotted path, such as `shown.text`, `start.state.numbers` or `outcome.reason`."""
    stored: str
    """The stored value as JSON, cut to 200 characters; empty where there is none."""
    replayed: str


class RecordedPolicy:
    """Answers with the decisions of a stored episode, turn by turn; stops where they are used up."""

    immediate = True

    def __init__(self, episode: Episode) -> None:
        self._steps = episode.steps

    async def act(self, turn: Turn) -> Decision:
        """Return what was decided in this turn."""
        if turn.step >= len(self._steps):
            return Decision(stop=True)
        step = self._steps[turn.step]
        # An engine's own words for a missing action are not the policy's problem, but they are shown all the same.
        problem = step.refused if step.action is None and step.refused != "no action was named" else ""
        return Decision(action=step.action, problem=problem, stop=step.stopped, text=step.text, usage=step.usage)

    async def close(self) -> None:
        """Hold nothing."""


def replay(job: RolloutJob, episode: Episode, volatile: frozenset[str] = frozenset()) -> Divergence | None:
    """Play `job` with the decisions of `episode`; return the first difference, or None where there is none.

    `volatile` names top-level keys of the state that may differ. Times, workers and attempts are left out. Hooks run
    confined, as ever; no model is asked. Raises RuntimeError inside a running event loop.
    """
    return first_divergence(episode, played_again(job, episode), volatile)


def job_of(store: RunStore, key: str) -> RolloutJob:
    """Return the job of a stored episode. Raises UnknownIdError where none was kept, DamagedEntryError for damage."""
    kept = store.get_job(key)
    if kept is None:
        raise UnknownIdError(
            f"{store.folder}: what episode {key} was played with was not kept, so it cannot be replayed"
        )
    try:
        return RolloutJob.model_validate(kept)
    except ValidationError as error:
        raise DamagedEntryError(f"{store.folder}: the job of episode {key} is damaged: {one_line(error)}") from error


def volatile_keys(stack: StackSpec) -> frozenset[str]:
    """Return the keys of the state that the stack's environments declare volatile. Builds the stack."""
    with stack.build() as env:
        return frozenset(key for layer in env.layers() for key in layer.capabilities.volatile_state_keys)


def played_again(job: RolloutJob, episode: Episode) -> Episode:
    """Play `job` with the decisions of `episode`. Raises RuntimeError inside a running event loop."""
    return run_episode(
        job.stack, RecordedPolicy(episode), seed=job.env_seed, limits=job.limits, record_states=job.record_states
    )


def first_divergence(
    stored: Episode,
    replayed: Episode,
    volatile: frozenset[str],
    parts: tuple[str, ...] = ("start", "steps", "evaluation", "outcome"),
) -> Divergence | None:
    """Compare `parts`, in the order in which they came about.

    Of an episode that became invalid after its start, the turns recorded are compared and nothing else: the decision
    that it broke on is not in the trace, so what came of it cannot be asked for again.
    """
    if not stored.valid and stored.start is not None:
        replayed = replayed.model_copy(update={"steps": replayed.steps[: len(stored.steps)]})
        parts = ("start", "steps")
    one, other = (_comparable(episode, volatile) for episode in (stored, replayed))
    return divergence_of({part: one[part] for part in parts}, {part: other[part] for part in parts})


def divergence_of(was: JsonDict, now: JsonDict) -> Divergence | None:
    """Return the first place where the parts of two episodes differ, in the order of their keys; None: nowhere."""
    for path, old, new in _differences(was, now, ()):
        step = int(path[1]) if path[0] == "steps" and len(path) > 1 else None
        field = ".".join(path if step is None else path[2:]) or "turn"
        return Divergence(step=step, field=field, stored=_brief(old), replayed=_brief(new))
    return None


def _comparable(episode: Episode, volatile: frozenset[str]) -> JsonDict:
    content = episode_content(cast("JsonDict", episode.model_dump(mode="json")))
    steps = cast("list[JsonValue]", content["steps"])
    for place in (content["start"], *steps):
        state = place.get("state") if isinstance(place, dict) else None
        if isinstance(state, dict):
            for key in volatile & state.keys():
                del state[key]
    return content


class _Nothing:
    """Stands where one side has no value."""


_Found = JsonValue | _Nothing


def _differences(was: _Found, now: _Found, path: tuple[str, ...]) -> Iterator[tuple[tuple[str, ...], _Found, _Found]]:
    if isinstance(was, dict) and isinstance(now, dict):
        for key in dict.fromkeys([*was, *now]):
            yield from _differences(was.get(key, _Nothing()), now.get(key, _Nothing()), (*path, key))
    elif isinstance(was, list) and isinstance(now, list):
        for index in range(max(len(was), len(now))):
            left = was[index] if index < len(was) else _Nothing()
            right = now[index] if index < len(now) else _Nothing()
            yield from _differences(left, right, (*path, str(index)))
    elif was != now:
        yield path, was, now


def _brief(value: _Found) -> str:
    return "" if isinstance(value, _Nothing) else canonical_json(value)[:_SHOWN]
