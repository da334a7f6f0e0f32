"""`envharness run`: plays episodes of a policy on an environment or a stored stack."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING, Annotated, Literal

import typer
from rich.text import Text

from envharness.cli.options import EpisodesPerWorker, GraceOption, SnapshotsOption, Workers, parse_count, parse_options
from envharness.cli.output import console, print_json, say, usage_json
from envharness.core.errors import MachineryError, ProviderRefusedError
from envharness.rollouts.interrupts import GRACE_SECONDS, orderly_stop

if TYPE_CHECKING:
    from envharness.core.policy import PolicySpec
    from envharness.core.spec import StackSpec
    from envharness.core.trace import Episode
    from envharness.rollouts.job import Limits, RolloutJob


def run(
    environment: Annotated[str, typer.Argument(help="An environment's id, 'module:Class', or a stack file.")],
    policy: Annotated[str, typer.Option("--policy", "-p", help="A policy's id or 'module:Class'.")],
    task: Annotated[str | None, typer.Option(help="The task to play.")] = None,
    option: Annotated[list[str] | None, typer.Option("--option", "-o", help="key=value for the environment.")] = None,
    policy_option: Annotated[list[str] | None, typer.Option("--policy-option", "-q", help="key=value.")] = None,
    episodes: Annotated[int, typer.Option("--episodes", "-n", min=1, max=1_000_000, help="How many.")] = 1,
    max_steps: Annotated[int, typer.Option(min=1, help="Turns an episode may take.")] = 50,
    policy_tokens: Annotated[int | None, typer.Option(min=1, help="Completion tokens an episode may use.")] = None,
    observation_bytes: Annotated[int | None, typer.Option(min=1, help="Bytes of text an episode may show.")] = None,
    seed: Annotated[int, typer.Option(help="Seed of all random streams.")] = 0,
    backend: Annotated[Literal["inline", "pool", "ray"], typer.Option(help="inline, pool or ray.")] = "inline",
    ray_address: Annotated[
        str | None, typer.Option(help="host:port of a Ray cluster; without it, one of its own.")
    ] = None,
    workers: Workers = None,
    episodes_per_worker: EpisodesPerWorker = None,
    snapshots: SnapshotsOption = None,
    grace: GraceOption = GRACE_SECONDS,
    *,
    trace: Annotated[bool, typer.Option("--trace", help="Print every turn.")] = False,
    unsafe_hooks: Annotated[bool, typer.Option("--unsafe-hooks", help="Run hooks without confinement.")] = False,
    as_json: Annotated[bool, typer.Option("--json", help="End with one JSON object.")] = False,
) -> None:
    """Play episodes and print how they ended. An episode that the machinery lost counts as neither won nor lost."""
    from envharness.cli.stacks import stack_of
    from envharness.core.policy import PolicySpec
    from envharness.rollouts.engine import make_engine
    from envharness.rollouts.job import Limits

    chosen = PolicySpec(id=policy, options=parse_options(policy_option or []))
    chosen.check()
    stack = stack_of(environment, task, parse_options(option or []))
    limits = Limits(max_steps=max_steps, policy_tokens=policy_tokens, observation_bytes=observation_bytes)
    jobs = _jobs(stack, chosen, episodes=episodes, limits=limits, seed=seed)
    most, each = parse_count("--workers", workers), parse_count("--episodes-per-worker", episodes_per_worker)
    with orderly_stop(grace, say) as stop:
        with make_engine(
            backend,
            workers=most,
            episodes_per_worker=each,
            unsafe_hooks=unsafe_hooks,
            snapshots=snapshots or "auto",
            ray_address=ray_address,
        ) as engine:
            played = sorted(_played(engine.run(jobs, stop=stop), episodes), key=lambda episode: episode.index)
        if played:
            _print(played, trace=trace, as_json=as_json)
    if not any(episode.valid for episode in played):
        raise typer.Exit(MachineryError.exit_code)


def _played(results: Iterable[tuple[RolloutJob, Episode]], asked: int) -> Iterator[Episode]:
    """Yield the episodes, `asked` in all.

    Raises ProviderRefusedError at the first whose provider knows neither key nor model, and PolicyError where nobody
    answers the policy and there are more to play.
    """
    from envharness.llm.silence import Silence
    from envharness.rollouts.blame import refused_by_provider

    silence = Silence()
    for number, (_, episode) in enumerate(results, 1):
        if refused_by_provider(episode):
            raise ProviderRefusedError(episode.outcome.detail)
        if news := silence.take(episode):
            say(news)
        if silence.complete and number < asked:
            raise silence.error()
        yield episode


def _jobs(stack: StackSpec, policy: PolicySpec, *, episodes: int, limits: Limits, seed: int) -> Iterator[RolloutJob]:
    from envharness.core.seeding import derive_seed
    from envharness.rollouts.job import RolloutJob

    with stack.build() as env:
        task = env.task_id
    for index in range(episodes):
        yield RolloutJob(
            task=task,
            stack=stack,
            policy=policy,
            env_seed=derive_seed(seed, "env", task),
            policy_seed=derive_seed(seed, "run", task, index),
            index=index,
            limits=limits,
        )


def _print(played: list[Episode], *, trace: bool, as_json: bool) -> None:
    from envharness.core.usage import Usage
    from envharness.report.terminal import trajectory_text
    from envharness.rollouts.ledger import describe_usage

    out = console()
    for episode in played:
        if trace and not as_json:
            out.print(trajectory_text(episode))
        outcome = episode.outcome
        how = " ".join(part for part in (outcome.kind, outcome.reason, outcome.detail) if part)
        say(f"episode {episode.index}: {how}, {len(episode.steps)} turns")
    used = sum((episode.usage + episode.wasted for episode in played), Usage())
    if used.calls:
        say(f"policy: {describe_usage(used)}")
    valid = [episode for episode in played if episode.valid]
    won = sum(episode.success for episode in valid)
    if not as_json:
        out.print(Text(f"{played[0].task}: {won} of {len(valid)} won, {len(played) - len(valid)} invalid"))
        return
    rate = won / len(valid) if valid else None
    counts = {"episodes": len(played), "valid": len(valid), "won": won, "success_rate": rate}
    print_json({"task": played[0].task, **counts, "usage": usage_json({"policy": used} if used.calls else {})})
