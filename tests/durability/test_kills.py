"""SIGKILL of the driver at fifty random instants and in every phase: the next start goes on, to the same end."""

from __future__ import annotations

import random
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from durability.drivers import Launcher, Start, kept_in, launcher, no_process_left
from durability.runs import RUNS

pytestmark = pytest.mark.slow

RANDOM_KILLS = 25
"""For each of the two designers."""

POINTS: dict[str, list[tuple[str, int]]] = {
    "template": [
        ("submit", 1),
        ("got baseline", 3),
        ("got check", 1),
        ("got round", 2),
        ("commit", 1),
        ("commit", 4),
        ("commit", 20),
        ("got template", 1),
        ("report", 1),
        ("reported", 1),
    ],
    "llm": [
        ("ask diagnose", 1),
        ("answered diagnose", 1),
        ("ask write", 1),
        ("answered write", 1),
        ("commit", 9),
        ("ask failures", 1),
        ("answered write", 2),
        ("got round", 3),
        ("report", 1),
    ],
}
PHASES = {
    "template": {"observe", "check", "validate", "remeasure", "report", "commit"},
    "llm": {"observe", "diagnose", "write", "validate", "report", "commit"},
}


@pytest.fixture(scope="module")
def drivers() -> Iterator[Launcher]:
    with launcher() as forking:
        yield forking


def after_some_news(chance: random.Random) -> Callable[[Start], bool]:
    """A kill after so many news of the driver and a moment, as a busy machine takes its time over either."""
    news, moment = chance.randrange(16), chance.random() * 0.03

    def due(_: Start) -> bool:
        nonlocal news
        news -= 1
        if news >= 0:
            return False
        time.sleep(moment)
        return True

    return due


class Run:
    """A run that is started again and again in one folder, held to its promises after each start."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.landed = set[str]()
        self.kills = 0
        self.acknowledged: list[str] = []
        self._before = kept_in(folder)

    def check(self, start: Start, phases: dict[str, str]) -> None:
        assert no_process_left(self.folder), "a process outlived its driver"
        now = kept_in(self.folder)
        # What was acknowledged is there, nothing that was there has gone, and nothing that was there was done again.
        assert set(start.stored) <= now.episodes.keys()
        assert self._before.episodes.items() <= now.episodes.items()
        assert start.kept | self._before.calls <= now.calls
        assert not self._before.episodes.keys() & set(start.submitted)
        assert not self._before.calls & start.asked.keys()
        assert len(set(start.submitted)) == len(start.submitted)
        # The kill may have come between the commit and the word of it, for one at most.
        assert len(now.episodes) - len(self._before.episodes) - len(start.stored) in {0, 1}
        self.acknowledged += start.stored
        if start.status == -9:
            self.kills += 1
            self.landed |= start.at_work_on(phases)
        self._before = now


@pytest.mark.parametrize("designer", ["template", "llm"])
def test_a_run_killed_at_any_instant_goes_on_to_the_same_content(
    designer: str, drivers: Launcher, tmp_path: Path
) -> None:
    config = tmp_path / "rig.yaml"
    config.write_text(RUNS[designer])
    undisturbed = drivers.start(config, tmp_path / "whole")
    assert undisturbed.status == 0, (tmp_path / "whole.log").read_text()
    whole = kept_in(tmp_path / "whole")
    assert len(undisturbed.submitted) == len(whole.episodes)
    chance = random.Random(24)
    points = list(POINTS[designer])
    landed = set[str]()
    at_random = folders = 0
    while at_random < RANDOM_KILLS or points:
        folders += 1
        run = Run(tmp_path / f"killed-{folders}")
        status = -9
        while status == -9:
            # Points in their order, random instants in between.
            if points and (at_random >= RANDOM_KILLS or chance.random() < 0.4):
                start = drivers.start(config, run.folder, die_at=points[0])
                if start.status == -9:
                    points.pop(0)  # else the run was past it: in the next folder
            elif at_random < RANDOM_KILLS:
                start = drivers.start(config, run.folder, until=after_some_news(chance))
                at_random += start.status == -9
            else:
                start = drivers.start(config, run.folder)
            status = start.status
            run.check(start, whole.episodes)
        assert status == 0, (tmp_path / f"killed-{folders}.log").read_text()
        landed |= run.landed
        assert len(run.acknowledged) == len(set(run.acknowledged))
        assert len(whole.episodes) - run.kills <= len(run.acknowledged) <= len(whole.episodes)
        assert kept_in(run.folder).content == whole.content
    assert landed >= PHASES[designer]
