"""`envharness replay` and `envharness rescore`: stored episodes played again, without their policy."""

from __future__ import annotations

import json
from collections import Counter
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from envharness.cli.output import console, print_json, say
from envharness.core.errors import ConfigError, UnknownIdError
from envharness.core.messages import printable

if TYPE_CHECKING:
    from collections.abc import Sequence

    from envharness.store.database import RunStore
    from envharness.store.episode_rows import EpisodeNote

_SHOWN = 5
RunArgument = Annotated[Path, typer.Argument(help="A run folder.")]
JsonOption = Annotated[bool, typer.Option("--json", help="End with one JSON object.")]


def replay(
    run: RunArgument,
    episode: Annotated[str, typer.Argument(help="The episode's key or the start of it; or its task.")],
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
        _print(f"the same: {len(stored.steps)} turns{compared}, {stored.outcome.kind}")
    else:
        place = "" if found.step is None else f"turn {found.step}, "
        _print(f"it diverges at {place}{found.field}")
        _print(f"  stored:   {found.stored}")
        _print(f"  replayed: {found.replayed}")
    if found is not None:
        raise typer.Exit(1)


def rescore(
    run: RunArgument,
    task: Annotated[str | None, typer.Option(help="Only this task's episodes.")] = None,
    phase: Annotated[str | None, typer.Option(help="Only the episodes of this phase.")] = None,
    write: Annotated[Path | None, typer.Option(help="Also write a line of JSON an episode to this file.")] = None,
    *,
    as_json: JsonOption = False,
) -> None:
    """Play stored episodes to their ends and ask the verifier again. Changes nothing in the run.

    Exit code 1 where a verdict has changed, or an episode no longer comes to the same state.
    """
    from envharness.core.files import write_atomically
    from envharness.rollouts.replay import Rescored, job_of, volatile_keys
    from envharness.rollouts.replay import rescore as score_again
    from envharness.store.database import RunStore

    if write is not None and write.resolve().is_relative_to(run.resolve()):
        raise ConfigError(f"--write {write}: name a file outside of the run folder, which is not to be changed")
    volatile: dict[str, frozenset[str]] = {}
    counts: Counter[str] = Counter()
    lines: list[dict[str, Any]] = []
    with RunStore.read(run) as store:
        for key, found_phase, stored in store.episodes(task=task, phase=phase):
            job = job_of(store, key)
            stack = job.stack.model_dump_json()
            if stack not in volatile:
                volatile[stack] = volatile_keys(job.stack)
            scored: Rescored = score_again(job, stored, volatile[stack])
            counts[scored.verdict] += 1
            line = {"key": key, "task": stored.task, "phase": found_phase, "index": stored.index}
            lines.append({**line, "verdict": scored.verdict, "was": scored.was, "now": scored.now})
            if scored.verdict in {"changed", "diverged"}:
                where = "" if scored.divergence is None else f" at turn {scored.divergence.step}"
                say(f"{stored.task} {found_phase} {stored.index} ({key[:8]}): {scored.verdict}{where}")
    if not lines:
        raise UnknownIdError(f"{run} has no such episodes")
    if write is not None:
        write_atomically(write, "".join(json.dumps(line) + "\n" for line in lines).encode())
    numbers = {name: counts[name] for name in ("same", "changed", "diverged", "invalid")}
    if as_json:
        print_json({"episodes": len(lines), **numbers})
    else:
        _print(f"{len(lines)} episodes: " + ", ".join(f"{number} {name}" for name, number in numbers.items()))
    if counts["changed"] or counts["diverged"]:
        raise typer.Exit(1)


def _chosen(store: RunStore, episode: str, phase: str | None, index: int | None) -> list[EpisodeNote]:
    """Return the notes of the episodes that fit, by task where there is one of that name, by key elsewhere."""
    keys = store.episode_keys(task=episode) or store.episode_keys(prefix=episode)
    return [note for note in store.episode_notes(keys) if phase in {None, note.phase} and index in {None, note.index}]


def _the_one(run: Path, found: Sequence[EpisodeNote]) -> EpisodeNote:
    if len(found) == 1:
        return found[0]
    names = [f"{note.key[:12]} ({note.task} --phase {note.phase} --index {note.index})" for note in found[:_SHOWN]]
    which = f"the first are {'; '.join(names)}" if found else "`envharness show` lists what is there"
    raise UnknownIdError(f"{run}: {len(found)} episodes fit, one is wanted: {which}")


def _print(line: str) -> None:
    console().print(printable(line), markup=False, soft_wrap=True)
