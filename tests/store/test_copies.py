"""A copied run folder: whose lock it carries, and what becomes of pages that were copied at different times."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import pytest

from envharness.core.errors import StoreError
from envharness.core.trace import Episode, Outcome, TraceStep
from envharness.core.types import Observation
from envharness.store.database import RunStore
from envharness.store.lock import RunLock


def fill(store: RunStore, numbers: range) -> None:
    for number in numbers:
        shown = Observation(text=f"{number} " * 2000)
        steps = [TraceStep(step=0, action=None, shown=shown)]
        store.put_episode(f"k{number}", "a", Episode(task="t", seed=0, outcome=Outcome(kind="success"), steps=steps))


def taken(folder: Path) -> RunLock:
    lock = RunLock(folder)
    lock.acquire()
    lock.release()
    return lock


def test_a_lock_knows_whether_the_folder_is_a_copy(tmp_path: Path) -> None:
    here, there = tmp_path / "here", tmp_path / "there"
    here.mkdir()
    assert not taken(here).copied
    assert not taken(here).copied
    shutil.copytree(here, there)
    assert taken(there).copied
    assert not taken(there).copied
    here.rename(tmp_path / "moved")
    assert not taken(tmp_path / "moved").copied
    text = json.loads((there / "run.lock").read_text())
    (there / "run.lock").write_text(json.dumps({**text, "host": "another"}))
    assert taken(there).copied
    (there / "run.lock").write_text('{"pid": ')
    assert taken(there).copied


def test_a_copy_with_pages_of_two_times_is_refused(tmp_path: Path) -> None:
    run, torn = tmp_path / "run", tmp_path / "torn"
    with RunStore.open(run, config={}, command="rig") as store:
        fill(store, range(200))
    shutil.copytree(run, torn)
    # The copying reached the second half of the file only after the run had written on.
    with RunStore.open(run, config={}, command="rig") as store:
        fill(store, range(200, 400))
    early, late = (torn / "run.sqlite3").read_bytes(), (run / "run.sqlite3").read_bytes()
    middle = len(early) // 2 // 4096 * 4096
    (torn / "run.sqlite3").write_bytes(late[:middle] + early[middle:])
    with pytest.raises(StoreError, match=r"this copy of a run is damaged .* copy the folder again while no run works"):
        RunStore.open(torn, config={}, command="rig")
