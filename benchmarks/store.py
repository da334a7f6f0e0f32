"""What it costs to keep an episode for good, and to find it again."""

from __future__ import annotations

import random
import tempfile
from collections.abc import Callable
from pathlib import Path
from statistics import median
from time import perf_counter

from benchmarks import Figure, at_most
from envharness.core.trace import Episode, Exchange, Outcome, StartRecord, TraceStep
from envharness.core.types import Action, EnvResponse, Observation
from envharness.store.database import RunStore

_EPISODES = 300


def measure() -> dict[str, Figure]:
    """Episodes of twenty turns, about 25 KB of JSON each, on the disk that holds the working directory."""
    episodes = [_episode(number) for number in range(_EPISODES)]
    with tempfile.TemporaryDirectory(dir=Path.cwd(), prefix=".benchmark-") as folder:
        with RunStore.open(Path(folder), config={}, command="benchmark") as store:
            put = _median_seconds(lambda n: store.put_episode(f"k{n}", "a", episodes[n]), _EPISODES)
            get = _median_seconds(lambda n: store.get_episode(f"k{n}"), _EPISODES)
            record = _median_seconds(lambda n: store.put_record("round", f"r{n}", {"number": n}), _EPISODES)
            cheap = [episode.model_copy(update={"seconds": 0.0}) for episode in episodes]
            relaxed = _median_seconds(lambda n: store.put_episode(f"n{n}", "a", cheap[n]), _EPISODES)
            export = _median_seconds(lambda _: store.export_canonical(), 3)
        size = sum(path.stat().st_size for path in Path(folder).iterdir())
        opened = _median_seconds(lambda _: RunStore.open(Path(folder), config={}, command="benchmark").close(), 10)
    return {
        "store_put_episode_ms": at_most(put * 1e3, "ms", 10),
        "store_put_cheap_episode_ms": at_most(relaxed * 1e3, "ms", 1),
        "store_get_episode_ms": at_most(get * 1e3, "ms", 5),
        "store_put_record_ms": at_most(record * 1e3, "ms", 10),
        "store_bytes_an_episode": Figure(size / (2 * _EPISODES), "bytes"),
        "store_export_ms_an_episode": Figure(export * 1e3 / (2 * _EPISODES), "ms"),
        "store_open_and_close_ms": Figure(opened * 1e3, "ms"),
    }


def _median_seconds(function: Callable[[int], object], times: int) -> float:
    spans: list[float] = []
    for number in range(times):
        began = perf_counter()
        function(number)
        spans.append(perf_counter() - began)
    return median(spans)


def _episode(number: int) -> Episode:
    words = random.Random(number)
    shown = Observation(text="You see " + ", ".join(f"a mug {words.randrange(999)}" for _ in range(30)))
    action = Action(name="take", kwargs={"thing": f"mug {number}"})
    step = TraceStep(
        step=0,
        action=action,
        text="I take it.",
        shown=shown,
        state={"inventory": [f"mug {index}" for index in range(10)]},
        raw=[Exchange(action=action, response=EnvResponse(observation=shown))],
    )
    return Episode(
        task="t",
        index=number,
        seed=number,
        seconds=10.0,
        outcome=Outcome(kind="success"),
        start=StartRecord(shown=shown, raw=shown),
        steps=[step.model_copy(update={"step": turn}) for turn in range(20)],
    )
