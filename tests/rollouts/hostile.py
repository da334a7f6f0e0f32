"""Environments and policies that misbehave on purpose, addressed as `rollouts.hostile:Name`."""

from __future__ import annotations

import asyncio
import os
import random
import subprocess
import sys
import threading
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any, cast

from envharness.core.errors import HookFault, PolicyError, ReplayError, ZygoteError
from envharness.core.harness import EnvHarness
from envharness.core.policy import Decision, PolicySpec, Turn
from envharness.core.spec import StackSpec
from envharness.core.types import (
    Action,
    Capabilities,
    EnvResponse,
    EvaluationResult,
    JsonDict,
    Observation,
    ResetResponse,
    StepInfo,
)
from envharness.core.usage import Usage
from envharness.llm.config import Endpoint
from envharness.rollouts.job import Limits, RolloutJob
from kitchen import Kitchen

THREADS: list[int] = []
"""The threads on which turns of `Immediate` were played, in order."""
WIN = [{"name": "take"}, {"name": "put", "kwargs": {"place": "desk"}}]


class Misbehaving(Kitchen):
    """Does `how` in the call named `when`. With `once`, the path of a file, only where that file is not there yet."""

    threads: set[int]

    def __init__(self, *, how: str = "", when: str = "step", once: str = "", seconds: float = 60.0) -> None:
        super().__init__()
        self.how, self.when, self.once, self.seconds = how, when, once, seconds
        self.threads = {threading.get_ident()}
        self._perhaps("init")

    def _start(self, seed: int | None, options: JsonDict) -> ResetResponse:
        self._perhaps("reset")
        return super()._start(seed, options)

    def step(self, action: Action) -> EnvResponse:
        self._perhaps("step")
        response = super().step(action)
        if self.how == "none":
            return None  # pyright: ignore[reportReturnType]  the mistake under test
        if self.how == "nan":
            return response.model_copy(update={"reward": float("nan")})
        if self.how == "object":
            return response.model_copy(update={"info": {"handle": object()}})
        if self.how == "surrogate":
            return response.model_copy(update={"observation": Observation.model_construct(text="\ud800", data={})})
        if self.how == "edits action":
            action.kwargs["place"] = "moon"
        return response

    def get_env_state(self) -> JsonDict:
        self._perhaps("state")
        # Without the kitchen's clock, which differs between identical runs.
        return {key: value for key, value in super().get_env_state().items() if key != "clock"}

    def evaluate(self) -> EvaluationResult:
        self._perhaps("evaluate")
        result = super().evaluate()
        return result.model_copy(update={"metrics": {"threads": len(self.threads)}})

    def _release(self) -> None:
        self._perhaps("close")

    def _perhaps(self, call: str) -> None:
        self.threads.add(threading.get_ident())
        if call != self.when:
            return
        if self.once:
            if Path(self.once).exists():
                return
            Path(self.once).touch()
        misbehave(self.how, self.seconds)


def misbehave(how: str, seconds: float) -> None:
    faults: Mapping[str, Exception] = {
        "raise": KeyError("mug"),
        "hook fault": HookFault("filter_action", "it raised"),
        "replay error": ReplayError(1, "it drifted"),
        "zygote": ZygoteError("it is gone"),
        "stop iteration": StopIteration(3),
        "timeout": TimeoutError("the container did not answer"),
    }
    if how in faults:
        raise faults[how]
    if how == "hang":
        time.sleep(seconds)
    elif how == "hang holding the GIL":
        pow(7, 3**17)
    elif how == "exit":
        os._exit(41)
    elif how == "complain":
        sys.stderr.write("Traceback of a kind\nSegmentation violation in the renderer\n")
        sys.stderr.flush()
        os._exit(3)
    elif how == "sys.exit":
        sys.exit("over")
    elif how == "print":
        sys.stdout.write("noise on standard output\n" * 3000)
        sys.stdout.flush()
        sys.stderr.write("noise on standard error\n" * 3000)
        sys.stderr.flush()
    elif how == "spawn":
        subprocess.Popen(["sleep", "317"])
    elif how == "kill":
        os.kill(os.getpid(), 9)


class Rewarding(Kitchen):
    def step_reward(self, info: StepInfo) -> float:
        if info.step == 1:
            raise ZeroDivisionError("in the reward")
        return float(info.state_before != info.state_after)


class Forgetful(EnvHarness):
    tag = "rollouts.hostile:Forgetful"

    def step(self, action: Action) -> EnvResponse:
        self.inner.step(action)
        return None  # pyright: ignore[reportReturnType]  the mistake under test


class Aliasing(Kitchen):
    """Hands out the same list in every observation and goes on writing to it."""

    def __init__(self) -> None:
        super().__init__()
        self.history: list[Any] = []

    def _look(self) -> Observation:
        self.history.append(len(self.history))
        return Observation.model_construct(text="look", data={"history": self.history})


class Script:
    """Plays its actions in turn, then stops. Knows one misbehaviour, at turn `at`."""

    def __init__(
        self, *, seed: int, actions: list[Any], how: str = "", at: int = 0, tokens: int = 0, once: str = ""
    ) -> None:
        self.random = random.Random(seed)
        self.actions, self.how, self.at, self.tokens, self.once = actions, how, at, tokens, once
        if how == "constructor":
            raise ValueError("no such model")

    async def act(self, turn: Turn) -> Decision:
        usage = Usage(calls=1, completion=self.tokens)
        if turn.step == self.at and self._due():
            if self.how == "dictionary":
                return {"action": None}  # pyright: ignore[reportReturnType]  the mistake under test
            if self.how == "provider":
                raise PolicyError("429 from the provider")
            if self.how == "waits":
                await asyncio.sleep(60)
            if self.how == "timeout":
                raise TimeoutError
            misbehave(self.how, 60)
        if self.how == "edits observation":
            turn.observation.data["edited"] = True
            turn.observation.text = "edited"
        if self.how == "hash":
            return Decision(stop=True, text=str(hash("mug")))
        if turn.step >= len(self.actions):
            return Decision(stop=True, text="done", usage=usage)
        wanted = self.actions[turn.step]
        return Decision(action=None if wanted is None else Action.model_validate(wanted), text="so", usage=usage)

    async def close(self) -> None:
        if self.how == "close":
            raise OSError("pipe")

    def _due(self) -> bool:
        if not self.once:
            return True
        path = Path(self.once)
        seen = path.exists()
        path.touch()
        return not seen


class Immediate(Script):
    """The script, saying that it is immediate. Notes the thread of each turn."""

    immediate = True

    async def act(self, turn: Turn) -> Decision:
        THREADS.append(threading.get_ident())
        if turn.step == self.at and self.how == "yields":
            await asyncio.sleep(0)
        if turn.step == self.at and self.how == "keeps on waiting":
            try:
                await asyncio.sleep(0)
            finally:
                await asyncio.sleep(0)
        if self.how == "dawdles":
            time.sleep(0.02)  # noqa: ASYNC251  the mistake under test
        if turn.step == self.at and self.how == "blocks":
            time.sleep(self.tokens)  # noqa: ASYNC251  the mistake under test
        return await super().act(turn)


class Unsure(Script):
    """Says so only where its option does."""

    def __init__(self, *, seed: int, immediate: bool) -> None:
        super().__init__(seed=seed, actions=WIN)
        self.immediate = immediate


class Naps:
    """Waits a time that differs from seed to seed, then wins: finish order is not submission order."""

    def __init__(self, *, seed: int, seconds: float) -> None:
        self.seconds = seconds
        self.script = Script(seed=seed, actions=WIN)

    async def act(self, turn: Turn) -> Decision:
        if turn.step == 0:
            await asyncio.sleep(self.seconds)
        return await self.script.act(turn)

    async def close(self) -> None:
        """Nothing to release."""


def kitchen(**options: Any) -> StackSpec:
    """A stack that is a bare kitchen; with options, one that misbehaves."""
    if options:
        return StackSpec.environment("rollouts.hostile:Misbehaving", **options)
    return StackSpec.environment("kitchen:Kitchen")


def script(actions: list[Any] | None = None, **options: Any) -> PolicySpec:
    return PolicySpec(
        id="rollouts.hostile:Script", options={"actions": cast("Any", WIN if actions is None else actions), **options}
    )


def job(stack: StackSpec | None = None, policy: PolicySpec | None = None, index: int = 0, **limits: Any) -> RolloutJob:
    return RolloutJob(
        task="mug-on-desk",
        stack=stack or kitchen(),
        policy=policy or script(),
        env_seed=3,
        policy_seed=index,
        index=index,
        limits=Limits(**limits),
    )


class Shared(Kitchen):
    """All of these share one backend, the folder `place`: a second one at the same time finds the first one's mark."""

    def __init__(self, *, place: str) -> None:
        super().__init__()
        self.mark = Path(place) / "in-use"

    @property
    def capabilities(self) -> Capabilities:
        return Capabilities(isolated=False)

    def _start(self, seed: int | None, options: JsonDict) -> ResetResponse:
        self.mark.touch(exist_ok=False)
        time.sleep(0.05)
        return super()._start(seed, options)

    def _release(self) -> None:
        self.mark.unlink(missing_ok=True)


class Waits(Naps):
    """Says that it waits for endpoints, and naps. Keeps in the folder `place` how many naps there are at a time."""

    def __init__(self, *, seed: int, seconds: float, place: str = "", concurrency: int = 1, number: int = 1) -> None:
        super().__init__(seed=seed, seconds=seconds)
        self.place = place

    @classmethod
    def waits_for(cls, options: Mapping[str, Any]) -> list[Endpoint]:
        names = [f"http://host-{number}" for number in range(int(options.get("number", 1)))]
        return [Endpoint(base_url=name, concurrency=int(options["concurrency"])) for name in names]

    async def act(self, turn: Turn) -> Decision:
        if turn.step or not self.place:
            return await super().act(turn)
        mark = Path(self.place) / str(id(self))
        mark.touch()
        at_once = len(os.listdir(self.place))  # noqa: PTH208  a moment, and no other call is as short
        try:
            decision = await super().act(turn)
        finally:
            mark.unlink()
        return decision.model_copy(update={"text": str(at_once)})
