"""`envharness replay`: plays a stored episode again, without its policy."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

import typer

from envharness.cli.options import JsonOption, RunArgument
from envharness.cli.output import print_json, print_line
from envharness.core.errors import UnknownIdError

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    from envharness.store.database import RunStore
    from envharness.store.episode_rows import EpisodeNote

_SHOWN = 5


def replay(
    run: RunArgument,
    episode: Annotated[str, typer.Argument(help="The key or the start of it; TASK/PHASE/INDEX; or a task.")],
    phase: Annotated[str | None, typer.Option(help="Of the task's episodes, one of this phase.")] = None,
    index: Annotated[int | None, typer.Option(min=0, help="And this one of its batch.")] = None,
    *,
    as_json: JsonOption = False,
) -> None:
    """Play a stored episode again on its stack, and say where it diverges. Exit code 1 where it does."""
    from envharness.rollouts.replay import job_of, volatile_keys
    from envharness.rollouts.replay import replay as play_again
    from envharness.store.database import RunStore

    with RunStore.read(run) as store:
        note = _the_one(run, _chosen(store, episode, phase, index))
        job, stored = job_of(store, note.key), store.get_episode(note.key)
    if stored is None:
        raise UnknownIdError(f"{run}: episode {note.key} was removed meanwhile")
    found = play_again(job, stored, volatile_keys(job.stack))
    if as_json:
        divergence = None if found is None else found.model_dump(mode="json")
        print_json(
            {"key": note.key, "task": note.task, "phase": note.phase, "index": note.index, "divergence": divergence}
        )
    elif found is None:
        # The decision that a turn broke on is not in the trace.
        compared = "" if stored.valid else " of those that were completed; the one that made it invalid is not known"
        print_line(f"the same: {len(stored.steps)} turns{compared}, {stored.outcome.kind}")
    else:
        place = "" if found.step is None else f"turn {found.step}, "
        print_line(f"it diverges at {place}{found.field}")
        print_line(f"  stored:   {found.stored}")
        print_line(f"  replayed: {found.replayed}")
    if found is not None:
        raise typer.Exit(1)


def _chosen(store: RunStore, episode: str, phase: str | None, index: int | None) -> list[EpisodeNote]:
    """Return the notes of the episodes that fit: by task, else as `task/phase/index`, else by key."""
    keys = store.episode_keys(task=episode) or _at_place(store, episode) or store.episode_keys(prefix=episode)
    return [note for note in store.episode_notes(keys) if phase in {None, note.phase} and index in {None, note.index}]


def _at_place(store: RunStore, place: str) -> list[str]:
    """Return the keys at `task/phase/index`. Task and phase may have slashes in them, so each split is looked at."""
    *parts, last = place.split("/")
    if not last.isascii() or not last.isdecimal():
        return []
    index, found = int(last), list[str]()
    for split in range(1, len(parts)):
        keys = store.episode_keys(task="/".join(parts[:split]), phase="/".join(parts[split:]))
        found += [note.key for note in store.episode_notes(keys) if note.index == index]
    return found


def _the_one(run: Path, found: Sequence[EpisodeNote]) -> EpisodeNote:
    if len(found) == 1:
        return found[0]
    names = [f"{note.key[:12]} ({note.task}/{note.phase}/{note.index})" for note in found[:_SHOWN]]
    which = f"the first are {'; '.join(names)}" if found else "`envharness show` lists what is there"
    raise UnknownIdError(f"{run}: {len(found)} episodes fit, one is wanted: {which}")
