"""`envharness run`: plays episodes of a policy on an environment or a stored stack."""

from __future__ import annotations

from typing import Annotated, Literal

import typer
from rich.text import Text

from envharness.cli.options import parse_options
from envharness.cli.output import console, print_json, say


def run(
    environment: Annotated[str, typer.Argument(help="An environment's id, 'module:Class', or a stack file.")],
    policy: Annotated[str, typer.Option("--policy", "-p", help="A policy's id or 'module:Class'.")],
    task: Annotated[str | None, typer.Option(help="The task to play.")] = None,
    option: Annotated[list[str] | None, typer.Option("--option", "-o", help="key=value for the environment.")] = None,
    policy_option: Annotated[list[str] | None, typer.Option("--policy-option", "-q", help="key=value.")] = None,
    episodes: Annotated[int, typer.Option("--episodes", "-n", min=1, help="How many.")] = 1,
    max_steps: Annotated[int, typer.Option(min=1, help="Turns an episode may take.")] = 50,
    seed: Annotated[int, typer.Option(help="Seed of all random streams.")] = 0,
    backend: Annotated[Literal["inline", "pool"], typer.Option(help="inline or pool.")] = "inline",
    workers: Annotated[int | None, typer.Option(min=1, help="Worker processes of the pool.")] = None,
    *,
    trace: Annotated[bool, typer.Option("--trace", help="Print every turn.")] = False,
    unsafe_hooks: Annotated[bool, typer.Option("--unsafe-hooks", help="Run hooks without confinement.")] = False,
    as_json: Annotated[bool, typer.Option("--json", help="End with one JSON object.")] = False,
) -> None:
    """Play episodes and print how they ended. An episode that the machinery lost counts as neither won nor lost."""
    from envharness.cli.stacks import stack_of
    from envharness.core.policy import PolicySpec
    from envharness.core.seeding import derive_seed
    from envharness.report.terminal import trajectory_text
    from envharness.rollouts.engine import make_engine
    from envharness.rollouts.job import Limits, RolloutJob

    chosen = PolicySpec(id=policy, options=parse_options(policy_option or []))
    chosen.check()
    stack = stack_of(environment, task, parse_options(option or []))
    with stack.build() as env:
        name = env.task_id
    jobs = [
        RolloutJob(
            task=name,
            stack=stack,
            policy=chosen,
            env_seed=derive_seed(seed, "env", name),
            policy_seed=derive_seed(seed, "run", name, index),
            index=index,
            limits=Limits(max_steps=max_steps),
        )
        for index in range(episodes)
    ]
    with make_engine(backend, workers=workers, unsafe_hooks=unsafe_hooks) as engine:
        played = sorted((episode for _, episode in engine.run(jobs)), key=lambda episode: episode.index)
    valid = [episode for episode in played if episode.valid]
    won = sum(episode.success for episode in valid)
    out = console()
    for episode in played:
        if trace and not as_json:
            out.print(trajectory_text(episode))
        outcome = episode.outcome
        how = " ".join(part for part in (outcome.kind, outcome.reason, outcome.detail) if part)
        say(f"episode {episode.index}: {how}, {len(episode.steps)} turns")
    if as_json:
        print_json(
            {
                "task": name,
                "episodes": len(played),
                "valid": len(valid),
                "won": won,
                "success_rate": won / len(valid) if valid else None,
            }
        )
    else:
        out.print(Text(f"{name}: {won} of {len(valid)} won, {len(played) - len(valid)} invalid"))
    if not valid:
        raise typer.Exit(5)
