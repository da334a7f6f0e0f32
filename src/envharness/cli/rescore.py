"""`envharness rescore`: asks the verifiers again about the episodes of a run."""

from __future__ import annotations

import json
from collections import Counter
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from envharness.cli.options import JsonOption, RunArgument
from envharness.cli.output import print_json, print_line, say
from envharness.core.errors import BridgeError, ConfigError, UnknownIdError

if TYPE_CHECKING:
    from collections.abc import Callable, Generator

    from envharness.rollouts.rescoring import Rescored
    from envharness.store.episode_rows import EpisodeNote


def rescore(
    run: RunArgument,
    task: Annotated[str | None, typer.Option(help="Only this task's episodes.")] = None,
    phase: Annotated[str | None, typer.Option(help="Only the episodes of this phase.")] = None,
    write: Annotated[Path | None, typer.Option(help="Also write a line of JSON an episode to this file.")] = None,
    *,
    as_json: JsonOption = False,
) -> None:
    """Play stored episodes to their ends and ask the verifier again. Changes nothing in the run.

    Exit code 1 where a verdict has changed, or an episode no longer comes to the same state; 3 where neither is so, but
    some episodes could not be played again.
    """
    from envharness.rollouts.rescoring import rescore_run
    from envharness.store.database import RunStore

    if write is not None and write.resolve().is_relative_to(run.resolve()):
        raise ConfigError(f"--write {write}: name a file outside of the run folder, which is not to be changed")
    counts: Counter[str] = Counter()
    with RunStore.read(run) as store, _table(write) as table:
        for note, found in rescore_run(store, task=task, phase=phase):
            counts[found.verdict] += 1
            counts["retold"] += found.retold is not None
            table(_table_line(note, found))
            if found.verdict not in {"same", "invalid"}:
                say(f"{note.task} {note.phase} {note.index} ({note.key[:8]}): {_described(found)}")
    verdicts = {name: counts[name] for name in ("same", "changed", "diverged", "unavailable", "invalid")}
    episodes = sum(verdicts.values())
    if not episodes:
        raise UnknownIdError(f"{run} has no such episodes")
    if as_json:
        print_json({"episodes": episodes, **verdicts, "retold": counts["retold"]})
    else:
        print_line(f"{episodes} episodes: " + ", ".join(f"{number} {name}" for name, number in verdicts.items()))
        if counts["retold"]:
            print_line(f"{counts['retold']} of them took the same path, but were told something else on it")
    if counts["changed"] or counts["diverged"]:
        raise typer.Exit(1)
    if counts["unavailable"]:
        raise typer.Exit(BridgeError.exit_code)


@contextmanager
def _table(path: Path | None) -> Generator[Callable[[dict[str, Any]], None]]:
    """Yield what takes one line of the table; each is in the file at once, so that an interrupted one is of use."""
    if path is None:
        yield lambda _: None
        return
    path.parent.mkdir(parents=True, exist_ok=True)
    with path.open("w", encoding="ascii", buffering=1) as file:

        def add(line: dict[str, Any]) -> None:
            file.write(json.dumps(line) + "\n")

        yield add


def _table_line(note: EpisodeNote, found: Rescored) -> dict[str, Any]:
    places = {"divergence": found.divergence, "retold": found.retold}
    return {
        "key": note.key,
        "task": note.task,
        "phase": note.phase,
        "index": note.index,
        "verdict": found.verdict,
        "was": found.was,
        "now": found.now,
        "segment": found.segment,
        "reason": found.reason,
        **{name: None if place is None else place.model_dump(mode="json") for name, place in places.items()},
    }


def _described(found: Rescored) -> str:
    """Say what became of a verdict, for a person."""
    if found.reason:
        return f"{found.verdict}: {found.reason}"
    place = found.divergence
    turn = "at the start" if place is None or place.step is None else f"at turn {place.step}"
    if found.segment:
        return f"{found.verdict}: segment {found.segment}, judged {turn}; the whole: {_verdicts(found)}"
    if place is None:
        return f"{found.verdict}: {_verdicts(found)}"
    same = "the verdict is the same all the same" if found.was == found.now else f"the verdict too: {_verdicts(found)}"
    return f"{found.verdict} {turn}, {place.field}; {same}"


def _verdicts(found: Rescored) -> str:
    """Name both verdicts by success and score, which may be equal where only the verifier's metrics differ."""
    return " -> ".join(
        "none" if one is None else f"{'success' if one['success'] else 'failure'} {one['score']}"
        for one in (found.was, found.now)
    )
