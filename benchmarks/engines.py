"""Episodes per second that the engines play: actors of a Ray cluster on this machine against the pool."""

from __future__ import annotations

from time import perf_counter

from benchmarks import Figure
from envharness.core.policy import PolicySpec
from envharness.core.spec import StackSpec
from envharness.rollouts.engine import Backend, make_engine
from envharness.rollouts.job import RolloutJob

_EPISODES = 200
_WORKERS = 2


def measure() -> dict[str, Figure]:
    """Both with two workers that are warm; wall clock, so on a machine that does nothing else."""
    pool, pool_start = _rates("pool")
    ray, ray_start = _rates("ray")
    return {
        "pool_first_episodes_s": Figure(pool_start, "s"),
        "ray_first_episodes_s": Figure(ray_start, "s"),
        "pool_episodes_per_second": Figure(pool, "1/s"),
        "ray_episodes_per_second": Figure(ray, "1/s"),
        "ray_share_of_pool": Figure(ray / pool, "times"),
    }


def _rates(backend: Backend) -> tuple[float, float]:
    """Episodes per second of warm workers, and the seconds until every worker has played its first."""
    began = perf_counter()
    with make_engine(backend, workers=_WORKERS) as engine:
        list(engine.run(_jobs(2 * _WORKERS)))
        start = perf_counter() - began
        began = perf_counter()
        list(engine.run(_jobs(_EPISODES)))
        return _EPISODES / (perf_counter() - began), start


def _jobs(count: int) -> list[RolloutJob]:
    return [
        RolloutJob(
            task="easy-0000",
            stack=StackSpec.environment("toy24", task="easy-0000"),
            policy=PolicySpec(id="solver"),
            env_seed=0,
            policy_seed=index,
            index=index,
        )
        for index in range(count)
    ]
