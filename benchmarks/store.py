"""What it costs to keep an episode for good, and to find it again."""

from __future__ import annotations

import random
import tempfile
from collections.abc import Callable
from pathlib import Path
from statistics import median
from time import perf_counter, process_time
from typing import TypeVar

from benchmarks import Figure, at_most
from benchmarks.large_run import build, forget_results, resume_run
from envharness.core.canonical import digest
from envharness.core.trace import Episode, Exchange, Outcome, StartRecord, TraceStep
from envharness.core.types import Action, EnvResponse, Observation
from envharness.report import write_report
from envharness.report.run import load_run
from envharness.report.terminal import run_tables
from envharness.rollouts.ledger import read_ledger
from envharness.store.database import RunStore

_EPISODES = 300
_FEW = 100
_REMEASURE = 215
"""Fresh rollouts a task, so that the large run has 10^5 episodes."""

_IN_WORK = 16
"""Tasks, with two designers each, that a killed run was at: as many as the driver works on at a time."""

_Value = TypeVar("_Value")


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
    return _large() | {
        "store_put_episode_ms": at_most(put * 1e3, "ms", 10),
        "store_put_cheap_episode_ms": at_most(relaxed * 1e3, "ms", 1),
        "store_get_episode_ms": at_most(get * 1e3, "ms", 5),
        "store_put_record_ms": at_most(record * 1e3, "ms", 10),
        "store_bytes_an_episode": Figure(size / (2 * _EPISODES), "bytes"),
        "store_export_ms_an_episode": Figure(export * 1e3 / (2 * _EPISODES), "ms"),
        "store_open_and_close_ms": Figure(opened * 1e3, "ms"),
    }


def _large() -> dict[str, Figure]:
    """What the same things cost in a run of 10^5 episodes, in seconds of CPU where they are work and not waiting."""
    with tempfile.TemporaryDirectory(dir=Path.cwd(), prefix=".benchmark-") as folder:
        small, large = Path(folder) / "small", Path(folder) / "large"
        few = _fill(small, _FEW)
        many = build(large, _REMEASURE)
        first, later = _append_seconds(small), _append_seconds(large)
        resume, played = _cpu_seconds(lambda: resume_run(large, _REMEASURE))
        forget_results(large, _IN_WORK)
        resume_mid, played_mid = _cpu_seconds(lambda: resume_run(large, _REMEASURE))
        ledger, _ = _cpu_seconds(lambda: _reading(large, read_ledger))
        page = large / "report.html"
        report, _ = _cpu_seconds(lambda: _reading(large, lambda store: write_report(store, page)))
        tables, _ = _cpu_seconds(lambda: _reading(large, lambda store: run_tables(load_run(store))))
        one, _ = _cpu_seconds(lambda: _reading(large, _one_by_prefix))
        megabytes = page.stat().st_size / 1e6
    if played or played_mid:
        raise RuntimeError(f"resuming played {played} and {played_mid} episodes that were there")
    return {
        "store_episodes_of_large_run": Figure(many, "episodes"),
        f"store_append_with_{few}_ms": Figure(first * 1e3, "ms"),
        "store_append_to_large_run_ms": Figure(later * 1e3, "ms"),
        "store_append_growth": at_most(later / first, "times", 1.5),
        "store_resume_large_run_s": at_most(resume, "s CPU", 5),
        "store_resume_large_run_in_mid_work_s": at_most(resume_mid, "s CPU", 5),
        "store_ledger_of_large_run_s": Figure(ledger, "s CPU"),
        "store_report_of_large_run_s": at_most(report, "s CPU", 5),
        "store_report_of_large_run_mb": Figure(megabytes, "MB"),
        "store_tables_of_large_run_s": at_most(tables, "s CPU", 5),
        "store_show_one_of_large_run_s": at_most(one, "s CPU", 5),
    }


def _reading(folder: Path, function: Callable[[RunStore], object]) -> None:
    with RunStore.read(folder) as store:
        function(store)


def _one_by_prefix(store: RunStore) -> None:
    """Do what `envharness show RUN --episode PREFIX` does."""
    (key,) = store.episode_keys(prefix=store.episode_keys()[-1][:12])
    store.get_episode(key)


def _fill(folder: Path, episodes: int) -> int:
    with RunStore.open(folder, config={}, command="rig") as store:
        for number in range(episodes):
            store.put_episode(_key(number), "a", _cheap(number))
    return episodes


def _append_seconds(folder: Path) -> float:
    """Median time of one more episode in a run that is there."""
    with RunStore.read(folder) as store:
        config = store.config
    episodes = [_cheap(number) for number in range(_EPISODES)]
    with RunStore.open(folder, config=config, command="rig") as store:
        return _median_seconds(lambda n: store.put_episode(_key(10**6 + n), "more", episodes[n]), _EPISODES)


def _cheap(number: int) -> Episode:
    return _episode(number).model_copy(update={"seconds": 0.0})


def _key(number: int) -> str:
    return digest({"number": number}, 32)


def _cpu_seconds(function: Callable[[], _Value]) -> tuple[float, _Value]:
    began = process_time()
    value = function()
    return process_time() - began, value


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
