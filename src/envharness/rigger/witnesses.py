"""Wins of another run, such as a stronger policy's, as known wins of this one."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path

from pydantic import JsonValue

from envharness.core.canonical import digest
from envharness.core.errors import ConfigError, SpecError
from envharness.core.spec import StackSpec
from envharness.core.trace import Episode
from envharness.core.types import Action
from envharness.rigger.observe import policy_wins, spell_all
from envharness.store.database import RunStore

MAX_STORED = 4
"""Stored wins of a task that are kept, the shortest first."""

Wins = tuple[tuple[Action, ...], ...]


def stored_wins(folder: Path, stacks: Mapping[str, StackSpec]) -> dict[str, Wins]:
    """Return for each task the wins that the run in `folder` has on the very stack that this run starts it from.

    Under another seed they may not win here, so they are to be tried before anything is read from them. Raises
    ConfigError where the run has none for any of the tasks, StoreError where it cannot be read.
    """
    with RunStore.read(folder) as store:
        found = {task: policy_wins(list(_won(store, task, stack)))[:MAX_STORED] for task, stack in stacks.items()}
    if not any(found.values()):
        raise ConfigError(
            f"witnesses: {folder} holds no win of a task of this run on the stack that it starts from; give the folder "
            "of a run with the same environment options and stacks whose policy wins some"
        )
    return found


def witnesses_digest(folder: Path) -> str:
    """Return a digest of all wins in a run: a run that rests on them is held to them when it goes on."""
    with RunStore.read(folder) as store:
        tasks = sorted({note.task for note in store.episode_notes(store.episode_keys())})
        wins: list[JsonValue] = [
            [task, spell_all(win)] for task in tasks for win in policy_wins(list(_won(store, task, None)))
        ]
    return digest(wins, 16)


def _won(store: RunStore, task: str, stack: StackSpec | None) -> Iterator[Episode]:
    """Yield a task's episodes that were won; on `stack` alone where one is given."""
    for note in store.episode_notes(store.episode_keys(task=task)):
        if note.outcome == "success" and (stack is None or _stack_of(store, note.key) == stack):
            episode = store.get_episode(note.key)
            if episode is not None:
                yield episode


def _stack_of(store: RunStore, key: str) -> StackSpec | None:
    job = store.get_job(key)
    try:
        return None if job is None else StackSpec.from_data(job.get("stack"))
    except SpecError:
        return None  # written by another version: not the stack of this run, in any case
