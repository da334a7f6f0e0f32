"""`envharness curriculum`: a buffer of accepted environments: add, list, show, sample, measure again, retire."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer
from pydantic import BaseModel, ConfigDict, Field
from rich.console import Group
from rich.table import Table
from rich.text import Text
from rich.tree import Tree

from envharness.cli.config_file import read_config
from envharness.cli.options import GraceOption
from envharness.cli.output import console, print_json
from envharness.cli.run_folder import EngineConfig, open_run
from envharness.core.errors import ConfigError, UnknownIdError
from envharness.core.policy import PolicySpec
from envharness.rollouts.interrupts import GRACE_SECONDS
from envharness.rollouts.ledger import Budget
from envharness.store.database import RunStore

if TYPE_CHECKING:
    from envharness.rigger.curriculum.levels import Level
    from envharness.rigger.curriculum.remeasure import Remeasurement

app = typer.Typer(help="A buffer of accepted environments, and what each still teaches.", no_args_is_help=True)

BufferOption = Annotated[Path, typer.Option("--buffer", "-b", help="The level buffer's file.")]
RoundOption = Annotated[int, typer.Option("--round", min=0, help="The round of the curriculum that it is now.")]
JsonOption = Annotated[bool, typer.Option("--json", help="End with one JSON object.")]


class RemeasureFile(BaseModel):
    """A configuration file of `envharness curriculum remeasure`."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    buffer: Path
    run_dir: Path
    policy: PolicySpec
    version: str | None = None
    """What this version of the policy is called; by default its id and a digest of its options."""
    round: int = Field(ge=0)
    rollouts: int = Field(default=20, ge=1, le=10_000)
    """A level."""
    total_rollouts: int = Field(default=1000, ge=1)
    """What all levels together may use; the least known are measured first."""
    seed: int = 0
    engine: EngineConfig = EngineConfig()
    budget: Budget = Budget()


@app.command()
def add(
    run: Annotated[Path, typer.Argument(metavar="RUN", help="The folder of a rigging run.")],
    buffer: BufferOption,
    now: RoundOption = 0,
    version: Annotated[str | None, typer.Option("--policy-version", help="Name of the policy's version.")] = None,
    *,
    as_json: JsonOption = False,
) -> None:
    """Add the accepted environments of a run. Adding the same run twice is adding it once."""
    from envharness.rigger.curriculum.buffer import add_levels
    from envharness.rigger.curriculum.harvest import levels_of

    with RunStore.read(run) as store:
        levels = levels_of(store, now=now, policy=version)
    if not levels:
        raise ConfigError(f"{run}: the run has accepted nothing yet, so there is no level to add")
    added = add_levels(buffer, levels)
    if as_json:
        print_json({"found": len(levels), "added": added.levels, "outcomes": added.outcomes, "buffer": str(buffer)})
    else:
        known = len(levels) - added.levels
        console().print(f"{added.levels} levels added to {buffer}, {known} known already", markup=False)


@app.command("list")
def list_levels(buffer: BufferOption, now: RoundOption = 0, *, as_json: JsonOption = False) -> None:
    """List the levels, the most learnable first."""
    from envharness.rigger.curriculum.buffer import read_levels
    from envharness.rigger.curriculum.worth import worth_of

    levels = read_levels(buffer)
    ordered = sorted(levels, key=lambda level: (bool(level.retired), -worth_of(level, now).learnability, level.id))
    if as_json:
        print_json({"levels": [_as_data(level, now) for level in ordered]})
        return
    table = Table("level", "task", "answers", "expected rate", "learnability", "stale", "", box=None, pad_edge=False)
    for level in ordered:
        worth = worth_of(level, now)
        table.add_row(
            level.id,
            Text(level.task),
            Text(level.lineage.flaw),
            f"{worth.success_rate:.2f} ± {worth.deviation:.2f}",
            f"{worth.learnability:.3f}",
            str(worth.staleness),
            Text(level.retired, "dim"),
        )
    console().print(table)


@app.command()
def show(
    level: Annotated[str, typer.Argument(help="A level's id, or the start of it.")],
    buffer: BufferOption,
    now: RoundOption = 0,
    *,
    as_json: JsonOption = False,
) -> None:
    """Show one level: its lineage, from the bare task on, and all that was measured."""
    from envharness.rigger.curriculum.buffer import read_levels

    levels = {entry.id: entry for entry in read_levels(buffer)}
    found = [entry for entry in levels.values() if entry.id.startswith(level)]
    if len(found) != 1:
        what = f"{len(found)} levels begin with" if found else "no level is called"
        raise UnknownIdError(f"{buffer}: {what} {level!r}; `envharness curriculum list` names them")
    chosen = found[0]
    lineage = [chosen]
    while (parent := levels.get(lineage[-1].lineage.parent or "")) is not None and parent not in lineage:
        lineage.append(parent)
    if as_json:
        stack: Any = chosen.stack.model_dump(mode="json")
        print_json(_as_data(chosen, now) | {"stack": stack, "ancestors": [entry.id for entry in lineage[1:]]})
        return
    tree = node = Tree(Text(f"task {chosen.task}"))
    for entry in reversed(lineage):
        made = entry.lineage
        how = f"{made.template} at {made.magnitude:.3g}" if made.magnitude is not None else made.template
        node = node.add(Text(f"{entry.id}: {how or 'written'} by {made.designer} for {made.policy}: {made.flaw}"))
    measured = Table("round", "policy", "won", "rollouts", "measured by", box=None, pad_edge=False)
    for outcome in chosen.outcomes:
        measured.add_row(
            str(outcome.round), Text(outcome.policy), str(outcome.successes), str(outcome.trials), Text(outcome.source)
        )
    console().print(Group(tree, Text(chosen.lineage.diagnosis), measured))


@app.command()
def sample(
    count: Annotated[int, typer.Argument(min=1, help="How many different levels.")],
    buffer: BufferOption,
    now: RoundOption = 0,
    seed: Annotated[int, typer.Option(help="The same seed and round draw the same levels.")] = 0,
    out: Annotated[Path | None, typer.Option(help="Folder to write the drawn stacks to, one file each.")] = None,
    *,
    as_json: JsonOption = False,
) -> None:
    """Draw levels to train in: the more learnable and the longer not measured, the likelier."""
    from envharness.components.stack_file import save_stack
    from envharness.rigger.curriculum.buffer import read_levels
    from envharness.rigger.curriculum.choice import Sampling
    from envharness.rigger.curriculum.choice import sample as draw

    drawn = draw(read_levels(buffer), count, now=now, seed=seed, sampling=Sampling())
    if out is not None:
        for level in drawn:
            save_stack(level.stack, out / f"{level.id}.json")
    if as_json:
        print_json({"levels": [level.id for level in drawn], "out": None if out is None else str(out)})
    else:
        console().print("\n".join(f"{level.id}  {level.task}" for level in drawn), markup=False, soft_wrap=True)


@app.command()
def retire(
    buffer: BufferOption,
    now: RoundOption = 0,
    *,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Only say what would be retired.")] = False,
    as_json: JsonOption = False,
) -> None:
    """Retire levels that the policy has mastered, or has no chance in."""
    from envharness.rigger.curriculum.buffer import read_levels, retire_levels
    from envharness.rigger.curriculum.choice import Retirement

    rule = Retirement()
    reasons = {level.id: rule.reason(level, now) for level in read_levels(buffer) if not level.retired}
    ended = [(level, reason) for level, reason in reasons.items() if reason]
    if not dry_run:
        retire_levels(buffer, ended)
    if as_json:
        print_json({"retired": dict(ended), "in_play": len(reasons) - len(ended), "dry_run": dry_run})
    else:
        lines = [f"{level}  {reason}" for level, reason in ended] or ["nothing to retire"]
        console().print("\n".join(lines), markup=False)


@app.command()
def remeasure(
    config: Annotated[Path, typer.Option("--config", "-c", help="The YAML configuration.")],
    grace: GraceOption = GRACE_SECONDS,
    *,
    unsafe_hooks: Annotated[
        bool, typer.Option("--unsafe-hooks", help="Run hooks without confinement, whatever this system offers.")
    ] = False,
    as_json: JsonOption = False,
) -> None:
    """Play the least known levels again with the policy as it is now, and note how it fared.

    Run the same command again to go on after an interruption.
    """
    from envharness.rigger.curriculum import remeasure as measuring
    from envharness.rigger.curriculum.buffer import add_outcomes, read_levels

    file = read_config(config, RemeasureFile)
    levels = read_levels(file.buffer)
    plan = _plan(file, levels)
    with open_run(
        file.run_dir,
        file.engine,
        config=plan.model_dump(mode="json"),
        command=measuring.COMMAND,
        resume=True,
        unsafe_hooks=unsafe_hooks,
        grace_seconds=grace,
    ) as run:
        outcomes = measuring.remeasure(
            plan,
            levels,
            store=run.store,
            engine=run.engine,
            progress=run.progress,
            budget=file.budget,
            stop=run.stop,
        )
    new = add_outcomes(file.buffer, [(level, outcome) for level, outcome in outcomes if outcome.trials])
    if as_json:
        counts = {level: {"successes": o.successes, "trials": o.trials} for level, o in outcomes}
        print_json({"measured": counts, "new": new, "run_dir": str(file.run_dir)})
    else:
        lines = [f"{level}  {o.successes} of {o.trials} won" for level, o in outcomes]
        console().print("\n".join(lines), markup=False)


def _plan(file: RemeasureFile, levels: list[Level]) -> Remeasurement:
    """Choose the levels; a run that has begun keeps the ones that it began with."""
    from envharness.rigger.curriculum.choice import to_remeasure
    from envharness.rigger.curriculum.harvest import policy_version
    from envharness.rigger.curriculum.remeasure import Remeasurement
    from envharness.store.schema import DATABASE_FILE

    chosen: list[str] = []
    if (file.run_dir / DATABASE_FILE).is_file():
        with RunStore.read(file.run_dir) as store:
            begun = store.config.get("levels")
        chosen = [level for level in begun if isinstance(level, str)] if isinstance(begun, list) else []
    if missing := [level for level in chosen if all(level != known.id for known in levels)]:
        raise ConfigError(f"{file.run_dir} measures level {missing[0]!r}, which is not in {file.buffer}")
    if not chosen:
        due = to_remeasure(levels, now=file.round, rollouts=file.total_rollouts, per_level=file.rollouts)
        chosen = [level.id for level in due]
    if not chosen:
        raise ConfigError(
            f"{file.buffer}: nothing to measure in round {file.round}: every level in play was measured in it, or "
            f"total_rollouts ({file.total_rollouts}) is less than one level takes ({file.rollouts})"
        )
    return Remeasurement(
        levels=tuple(chosen),
        policy=file.policy,
        version=file.version or policy_version(file.policy),
        round=file.round,
        rollouts=file.rollouts,
        seed=file.seed,
    )


def _as_data(level: Level, now: int) -> dict[str, Any]:
    from envharness.rigger.curriculum.worth import worth_of

    worth = worth_of(level, now)
    return {
        "id": level.id,
        "task": level.task,
        "success_rate": worth.success_rate,
        "learnability": worth.learnability,
        "deviation": worth.deviation,
        "staleness": worth.staleness,
        "retired": level.retired,
        "lineage": level.lineage.model_dump(mode="json"),
        "outcomes": [outcome.model_dump(mode="json") for outcome in level.outcomes],
    }
