"""How many episodes one process plays at once where the policy mostly waits for its model."""

from __future__ import annotations

import resource
from time import perf_counter

from benchmarks import Figure, at_least, at_most
from benchmarks.model_server import model_server
from envharness.core.policy import Decision, PolicySpec, Turn
from envharness.core.spec import StackSpec
from envharness.core.types import Action
from envharness.llm.chat import ChatRequest, Message
from envharness.llm.config import Endpoint, ModelConfig
from envharness.llm.make import client_for
from envharness.rollouts.engine import make_engine
from envharness.rollouts.job import Limits, RolloutJob

EPISODES = 500
TURNS = 10
LATENCY = 1.0


class AskingPolicy:
    """Asks the model, then starts the puzzle over: a turn that is nearly all waiting."""

    def __init__(self, *, seed: int, url: str) -> None:
        self._seed = seed
        self._model = ModelConfig(model="m", endpoints=(Endpoint(base_url=url, concurrency=EPISODES),))

    async def act(self, turn: Turn) -> Decision:
        """Wait for an answer."""
        messages = (Message(role="user", content=turn.observation.text),)
        request = ChatRequest(messages=messages, key=f"{self._seed}/{turn.step}")
        answer = await client_for(self._model).complete(request)
        return Decision(action=Action(name="reset_numbers"), text=answer.text, usage=answer.usage)

    async def close(self) -> None:
        """Nothing is its own."""


def measure() -> dict[str, Figure]:
    """500 episodes of 10 turns on one worker, against a server with 1 s latency; the worker is warm."""
    with model_server(latency=LATENCY) as url:
        before = _children_cpu()
        jobs = [_job(url, number) for number in range(EPISODES + 1)]
        with make_engine("pool", workers=1, episodes_per_worker=EPISODES) as engine:
            for _ in engine.run([jobs[0].model_copy(update={"limits": Limits(max_steps=1)})]):
                pass
            began = perf_counter()
            valid = sum(episode.valid and len(episode.steps) == TURNS for _, episode in engine.run(jobs[1:]))
            seconds = perf_counter() - began
        # The server is still running, so the worker alone has been added.
        cpu = _children_cpu() - before
    peak = resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss * 1024
    assert valid == EPISODES, f"only {valid} of {EPISODES} episodes are complete"
    return {
        "concurrency_share_of_ideal": at_least(TURNS * LATENCY / seconds, "", 0.8),
        "concurrency_turns_a_second": Figure(EPISODES * TURNS / seconds, "turns/s"),
        # What the share asks of one core; steadier than the share itself where others use the machine.
        "concurrency_worker_cpu_ms_a_turn": at_most(cpu / EPISODES / TURNS * 1e3, "ms", 1e3 / (0.8 * EPISODES)),
        "concurrency_peak_memory": at_most(peak / 2**30, "GiB", 1.0),
    }


def _children_cpu() -> float:
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime


def _job(url: str, number: int) -> RolloutJob:
    return RolloutJob(
        task="t",
        stack=StackSpec.environment("toy24"),
        policy=PolicySpec(id="benchmarks.concurrency:AskingPolicy", options={"url": url}),
        env_seed=0,
        policy_seed=number,
        index=number,
        limits=Limits(max_steps=TURNS),
    )
