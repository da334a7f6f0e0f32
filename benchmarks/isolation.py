"""What it costs to keep hook source in a process of its own."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable
from os import getloadavg
from statistics import median
from time import perf_counter, sleep

from pydantic import JsonValue

from benchmarks import Figure, at_least, at_most
from benchmarks.isolated_episodes import measure_episodes
from envharness.core.types import Action, EnvResponse, JsonDict, Observation
from envharness.sandbox import open_session, stop_zygote
from envharness.sandbox.session import HookSession

_CONTRACT = """
class _Contract(Contract):
    def modify_transition(self, action, response, env_state):
        env_state.extras["steps"] = env_state.extras.get("steps", 0) + 1
        return response
"""
_MODEL_CONTRACT = "class Note(Observation):\n    origin: str = 'hook'\n" + _CONTRACT
_NOTHING = "class _Contract(Contract): pass"
_STEPS = 10
_INTERPRETER = f"""
from envharness.core.types import Action, EnvResponse, Observation
from envharness.sandbox.hook_process import HookServer
import orjson
server = HookServer(1 << 22)
server.answer(orjson.dumps({{"op": "load", "source": {_CONTRACT!r}, "seed": 0}}), b"{{}}")
call = orjson.dumps({{
    "op": "after_transition", "filter_observation": False, "action": {{"name": "step"}},
    "response": {{"observation": {{"text": "x"}}}},
}})
for _ in range({_STEPS}):
    server.answer(call, b"")
"""

_ACTION = Action(name="step", kwargs={"number": 1})
_RESPONSE = EnvResponse(observation=Observation(text="something happened"))


def measure() -> dict[str, Figure]:
    """All figures: medians of many runs in this process, then whole episodes in many processes."""
    stop_zygote()
    zygote = _seconds(lambda: open_session(_NOTHING, seed=0).close(), 1)
    session = _seconds(lambda: open_session(_CONTRACT, seed=0).close(), 100)
    with_model = _seconds(lambda: open_session(_MODEL_CONTRACT, seed=0).close(), 50)
    episode = _seconds(_episode, 100)
    interpreter = _seconds(_fresh_interpreter, 7)
    with open_session(_NOTHING, seed=0) as plain:
        before = plain.round_trips
        unchanged = _seconds(lambda: plain.after_transition(_ACTION, _RESPONSE, {}), 2000)
        round_trips = plain.round_trips - before
    with open_session(_CONTRACT, seed=0) as hot:
        small, large = _call_seconds(hot, 1_000, 3000), _call_seconds(hot, 100_000, 300)
        idle = _call_seconds(hot, 1_000, 300, pause=0.001)
    return {
        "isolation_machine_load": Figure(getloadavg()[0], "processes"),  # above the number of cores the rest is noise
        "isolation_first_session_ms": Figure(zygote * 1e3, "ms"),
        "isolation_session_open_close_ms": Figure(session * 1e3, "ms"),
        "isolation_session_with_model_ms": Figure(with_model * 1e3, "ms"),
        "isolation_episode_ms": at_most(episode * 1e3, "ms", 8),
        "isolation_interpreter_per_episode_ms": Figure(interpreter * 1e3, "ms"),
        "isolation_times_cheaper_than_interpreter": at_least(interpreter / episode, "times", 25),
        "isolation_call_1kb_us": at_most(small * 1e6, "us", 60),
        "isolation_call_1kb_after_idling_us": Figure(idle * 1e6, "us"),
        "isolation_call_100kb_us": Figure(large * 1e6, "us"),
        "isolation_not_overridden_round_trips": at_most(round_trips, "calls", 0),
        "isolation_not_overridden_call_us": Figure(unchanged * 1e6, "us"),
        **measure_episodes(),
    }


def _episode() -> None:
    """One contract through a short episode: the work that the fresh interpreter is measured with."""
    with open_session(_CONTRACT, seed=0) as session:
        for _ in range(_STEPS):
            session.after_transition(_ACTION, _RESPONSE, {})


def _fresh_interpreter() -> None:
    subprocess.run([sys.executable, "-c", _INTERPRETER], check=True)


def _seconds(work: Callable[[], object], times: int) -> float:
    """Median wall-clock seconds of `work`."""
    taken: list[float] = []
    for _ in range(times):
        begin = perf_counter()
        work()
        taken.append(perf_counter() - begin)
    return median(taken)


def _call_seconds(session: HookSession, state_bytes: int, times: int, pause: float = 0.0) -> float:
    """Median seconds of a hook call whose state, of about `state_bytes`, changes each time."""
    taken: list[float] = []
    for number in range(times):
        rows: list[JsonValue] = [1] * (state_bytes // 4)
        state: JsonDict = {"number": number, "text": "x" * (state_bytes // 2), "rows": rows}
        if pause:
            sleep(pause)
        begin = perf_counter()
        session.after_transition(_ACTION, _RESPONSE, state)
        taken.append(perf_counter() - begin)
    return median(taken)
