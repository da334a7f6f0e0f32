"""The run database through kills, full disks and folders that cannot be written."""

from __future__ import annotations

import os
import random
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from envharness.store.database import RunStore

pytestmark = pytest.mark.slow

# Forks writers on demand, so that a kill costs no interpreter start. Each acknowledges on its own pipe.
WRITERS = """
import os, sys
from pathlib import Path
from envharness.core.trace import Episode, Outcome, TraceStep
from envharness.core.types import Observation
from envharness.store.database import RunStore
step = TraceStep(step=0, action=None, shown=Observation(text="x" * 2000))
for line in sys.stdin:
    folder, start = line.split()
    pid = os.fork()
    if pid == 0:
        with RunStore.open(Path(folder), config={"seed": 1}, command="rig") as store:
            for number in range(int(start), 10**9):
                episode = Episode(task=f"t{number}", seed=number, outcome=Outcome(kind="success"), steps=[step] * 5)
                store.put_episode(f"k{number}", "baseline", episode)
                store.put_record("round", f"r{number}", {"number": number})
                os.write(1, b"%d\\n" % number)
    print(f"pid {pid}", flush=True)
    os.waitpid(pid, 0)
    print("gone", flush=True)
"""


def python(program: str, *arguments: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-c", program, *arguments], capture_output=True, text=True, timeout=60, check=False
    )


def test_every_acknowledged_episode_survives_kills_at_random_instants(tmp_path: Path) -> None:
    chance = random.Random(24)
    acknowledged: set[int] = set()
    with subprocess.Popen(
        [sys.executable, "-c", WRITERS], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, bufsize=1
    ) as writers:
        assert writers.stdin is not None
        assert writers.stdout is not None
        for _ in range(25):
            start = max(acknowledged, default=-1) + 1
            writers.stdin.write(f"{tmp_path} {start}\n")
            lines = iter(writers.stdout.readline, "")
            pid = int(next(line for line in lines if line.startswith("pid")).split()[1])
            # After some work, however slow the machine; with none of it, while the database is opened.
            for _ in range(chance.randrange(5)):
                acknowledged.add(int(next(lines)))
            time.sleep(chance.random() * 0.02)
            os.kill(pid, 9)
            for line in lines:
                if line == "gone\n":
                    break
                acknowledged.add(int(line))
            with RunStore.open(tmp_path, config={"seed": 1}, command="rig") as store:
                keys = [key for key, _, _ in store.episodes()]
                assert len(keys) == len(set(keys))
                stored = {int(key[1:]) for key in keys}
                assert acknowledged <= stored
                # What was in the making when the kill came is there whole or not at all; the next writer redoes it.
                assert stored <= acknowledged | {max(acknowledged, default=-1) + 1}
                recorded = {int(key[1:]) for key, _ in store.records("round")}
                assert acknowledged <= recorded <= stored
        writers.stdin.close()
    assert len(acknowledged) > 25


# Opens the store, limits file sizes as a full disk would, and writes until it is stopped.
FILL = """
import resource, sys
from pathlib import Path
from envharness.core.errors import StoreError
from envharness.core.trace import Episode, Outcome, TraceStep
from envharness.core.types import Observation
from envharness.store.database import RunStore
import random
text = random.Random(1).randbytes(4000).hex()
with RunStore.open(Path(sys.argv[1]), config={}, command="rig") as store:
    if sys.argv[2] != "0":
        resource.setrlimit(resource.RLIMIT_FSIZE, (int(sys.argv[2]), resource.RLIM_INFINITY))
    count = 0
    try:
        while count < 5000:
            shown = Observation(text=text)
            step = TraceStep(step=0, action=None, shown=shown)
            store.put_episode(f"k{count}", "a", Episode(task="t", seed=0, outcome=Outcome(kind="success"), steps=[step]))
            count += 1
    except StoreError as error:
        print(error)
    resource.setrlimit(resource.RLIMIT_FSIZE, (resource.RLIM_INFINITY, resource.RLIM_INFINITY))
    print(count, len(list(store.episodes())))
"""


def test_a_full_quota_is_one_clear_line_and_loses_nothing(tmp_path: Path) -> None:
    done = python(FILL, str(tmp_path), "300000")
    assert done.returncode == 0, done.stderr
    message, counts = done.stdout.splitlines()
    assert "the disk" in message
    assert "run" in message
    count, stored = map(int, counts.split())
    assert 0 < count == stored
    with RunStore.open(tmp_path, config={}, command="rig") as store:
        assert len(list(store.episodes())) == count


@pytest.fixture
def small_disk() -> Iterator[Path]:
    folder = Path(tempfile.mkdtemp())
    mounted = subprocess.run(
        ["mount", "-t", "tmpfs", "-o", "size=400k", "tmpfs", folder], capture_output=True, check=False
    )
    if mounted.returncode:
        folder.rmdir()
        pytest.skip("mounting a small disk needs privileges; the quota test covers the rest")
    yield folder
    subprocess.run(["umount", folder], check=True)
    folder.rmdir()


def test_a_full_disk_is_one_clear_line_and_the_run_goes_on_once_there_is_room(small_disk: Path) -> None:
    done = python(FILL, str(small_disk), "0")
    assert done.returncode == 0, done.stderr
    message, counts = done.stdout.splitlines()
    assert "the disk is full; free some space" in message
    count, stored = map(int, counts.split())
    assert 0 < count == stored
    subprocess.run(["mount", "-o", "remount,size=4m", small_disk], check=True)
    with RunStore.open(small_disk, config={}, command="rig") as store:
        assert len(list(store.episodes())) == count
        _, _, episode = next(store.episodes())
        store.put_episode("more", "a", episode)
    subprocess.run(["mount", "-o", "remount,ro", small_disk], check=True)
    done = python(
        "import sys; from pathlib import Path; from envharness.store.database import RunStore\n"
        "print(len(list(RunStore.read(Path(sys.argv[1])).episodes())))\n"
        "RunStore.open(Path(sys.argv[1]), config={}, command='rig')",
        str(small_disk),
    )
    assert done.stdout == f"{count + 1}\n"
    assert "StoreError: cannot open" in done.stderr
    assert "Read-only file system" in done.stderr


READ_ONLY = """
import urllib.parse  # before the change of user, who may not read the interpreter's library
import os, sys
from pathlib import Path
from envharness.core.errors import StoreError
from envharness.store.database import RunStore
if os.getuid() == 0:
    os.setuid(65534)  # root may write everywhere
for folder in (Path(sys.argv[1]), Path(sys.argv[1]) / "new"):
    try:
        RunStore.open(folder, config={}, command="rig")
    except StoreError as error:
        print(error)
with RunStore.read(Path(sys.argv[1])) as store:
    print(store.command)
"""


def test_a_folder_that_cannot_be_written_can_still_be_read() -> None:
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        RunStore.open(folder, config={}, command="rig").close()
        folder.chmod(0o555)
        done = python(READ_ONLY, name)
        folder.chmod(0o755)
    assert done.returncode == 0, done.stderr
    first, second, command = done.stdout.splitlines()
    assert first == f"cannot open {folder / 'run.lock'}: Permission denied"
    assert second == f"cannot make the run folder {folder / 'new'}: Permission denied"
    assert command == "rig"


def test_a_run_folder_that_is_a_file_is_a_clear_error(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    done = python(
        "import sys; from pathlib import Path; from envharness.store.database import RunStore\n"
        "RunStore.open(Path(sys.argv[1]), config={}, command='rig')",
        str(tmp_path / "file" / "run"),
    )
    assert "StoreError: cannot make the run folder" in done.stderr


def test_a_lock_is_held_across_processes_and_ends_with_a_killed_one(tmp_path: Path) -> None:
    program = (
        "import sys, time; from pathlib import Path; from envharness.store.database import RunStore\n"
        "store = RunStore.open(Path(sys.argv[1]), config={}, command='rig')\nprint('held', flush=True)\ntime.sleep(60)"
    )
    with subprocess.Popen([sys.executable, "-c", program, tmp_path], stdout=subprocess.PIPE, text=True) as holder:
        assert holder.stdout is not None
        assert holder.stdout.readline() == "held\n"
        second = python(program, str(tmp_path))
        holder.kill()
    assert f"RunLockedError: {tmp_path} is in use by process {holder.pid} on " in second.stderr
    RunStore.open(tmp_path, config={}, command="rig").close()
