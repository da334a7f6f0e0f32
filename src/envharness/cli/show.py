"""`envharness show`: a run on the terminal, whole or one task or episode of it."""

from __future__ import annotations

from dataclasses import asdict
from pathlib import Path
from typing import Annotated

import typer

from envharness.cli.output import console, print_json, usage_json
from envharness.core.errors import UnknownIdError


def show(
    run: Annotated[Path, typer.Argument(help="A run folder.")],
    task: Annotated[str | None, typer.Option(help="Show this task: diagnosis, rounds, component.")] = None,
    episode: Annotated[str | None, typer.Option(help="Show this episode, by its key or the start of it.")] = None,
    *,
    as_json: Annotated[bool, typer.Option("--json", help="End with one JSON object.")] = False,
) -> None:
    """Show what is in a run folder, finished or in progress."""
    from envharness.cli.hardening import print_result, result_in
    from envharness.report.run import load_run
    from envharness.report.terminal import run_tables, task_detail, trajectory_text
    from envharness.store.database import RunStore

    with RunStore.read(run) as store:
        if episode is not None:
            keys = store.episode_keys(prefix=episode)
            if len(keys) != 1:
                raise UnknownIdError(f"{run}: {len(keys)} episodes have a key that starts with {episode!r}")
            found = store.get_episode(keys[0])
            if found is None:
                raise UnknownIdError(f"{run}: episode {keys[0]} was removed meanwhile")
            if as_json:
                print_json(found.model_dump(mode="json"))
            else:
                console().print(trajectory_text(found))
            return
        if (hardened := result_in(store)) is not None:
            print_result(hardened, as_json=as_json)
            return
        loaded = load_run(store)
        results = [result for result in loaded.main.results if task in {None, result.task}]
        if not results and task is not None:
            known = ", ".join(result.task for result in loaded.main.results[:5])
            which = f"the first are: {known}" if known else "none is finished yet"
            raise UnknownIdError(f"{run} has no finished task {task!r} ({which})")
        if as_json:
            print_json(
                {
                    "tasks": [result.model_dump(mode="json") for result in results],
                    "finished": loaded.finished,
                    "phases": {phase.phase: asdict(phase) for phase in store.phase_counts()},
                    "usage": usage_json(loaded.spending.by_role),
                    "budget": None if loaded.spending.budget is None else loaded.spending.budget.model_dump(),
                }
            )
        elif task is not None:
            console().print(task_detail(results[0], loaded.band))
        else:
            console().print(run_tables(loaded))
