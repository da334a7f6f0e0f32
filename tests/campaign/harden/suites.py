"""Suites for hardening tests: tasks of the rigger's test world, with rollouts made by hand or really played."""

from __future__ import annotations

from collections.abc import Sequence

from envharness.campaign.harden.config import HardenConfig
from envharness.campaign.harden.plan import baseline_plan
from envharness.campaign.harden.suite import PlayedTask
from envharness.core.policy import Decision, PolicySpec, Turn
from envharness.core.spec import StackSpec
from envharness.core.trace import Episode
from envharness.core.types import Action
from envharness.rigger.config import EnvironmentConfig
from envharness.rigger.observe import TaskView, view_task
from envharness.rigger.requests import Batch, Result, Work
from envharness.rollouts.engine import make_engine
from rigger.build import TOOLS
from rigger.halls import Walker

TASKS = ["hall-0", "hall-1", "hall-2"]


class Brittle(Walker):
    """A walker whose program breaks where the screen is empty."""

    async def act(self, turn: Turn) -> Decision:
        if not turn.observation.text:
            raise KeyError("room")
        return await super().act(turn)


def settings(**fields: object) -> HardenConfig:
    """A suite in the halls, played by the walker."""
    given: dict[str, object] = {
        "environment": EnvironmentConfig(id="rigger.halls:Halls"),
        "tasks": TASKS,
        "policy": PolicySpec(id="rigger.halls:Walker", options={"lazy": 0.05}),
        "rollouts": 4,
    }
    return HardenConfig.model_validate(given | fields)


def task_of(
    episodes: Sequence[Episode], name: str = "t", reference: tuple[Action, ...] | None = None, **fields: object
) -> PlayedTask:
    """A task with these rollouts, which nobody played."""
    stack = StackSpec.environment("rigger.halls:Halls", task=name)
    view = TaskView(name, stack, TOOLS, "items: list[str]", reversible=True, reference=reference)
    return PlayedTask(view, tuple(episodes), tuple(f"key-{e.index}" for e in episodes), settings(**fields))


def played(config: HardenConfig) -> list[PlayedTask]:
    """The tasks of a suite, really played as they are."""
    assert isinstance(config.tasks, list)
    options = config.environment.options
    stacks = {task: StackSpec.environment(config.environment.id, **options, task=task) for task in config.tasks}
    return [drive(baseline_plan(view_task(task, stack), config))[0] for task, stack in stacks.items()]


def drive(plan: Work[Result]) -> tuple[Result, list[Batch]]:
    """Play what a plan asks for, and return what it comes to and what it asked for."""
    asked: list[Batch] = []
    with make_engine() as engine:
        try:
            wanted = next(plan)
            while True:
                assert isinstance(wanted, Batch)
                asked.append(wanted)
                found = {job.key: episode for job, episode in engine.run(wanted.jobs)}
                wanted = plan.send([found[job.key] for job in wanted.jobs])
        except StopIteration as end:
            return end.value, asked
