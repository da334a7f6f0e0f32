from __future__ import annotations

import json
import sqlite3
import subprocess
import sys
from pathlib import Path

import pytest

from envharness import __version__
from envharness.core.errors import ConfigChangedError, RunLockedError, StoreError
from envharness.core.trace import Episode, Outcome, StartRecord, TraceStep
from envharness.core.types import Action, JsonDict, Observation
from envharness.core.usage import Usage
from envharness.store import database, schema
from envharness.store.database import RunStore
from envharness.store.episode_rows import EpisodeNote

CONFIG: JsonDict = {"seed": 1, "policy": {"id": "solver", "options": {"skill": 0.5}}}


def episode(task: str = "t", index: int = 0, kind: str = "success", **fields: object) -> Episode:
    reason = str(fields.pop("reason", "" if kind == "success" else "stopped"))
    step = TraceStep(
        step=0,
        action=Action(name="take", kwargs={"count": 2**80, "text": "ü \x1b[31m"}),
        shown=Observation(text="You see <b>a mug</b>."),
        state={"seconds": 4, "worker": "Ann"},
        env_seconds=0.25,
        policy_seconds=0.5,
    )
    start = StartRecord(shown=step.shown, raw=step.shown, env_seconds=1.5)
    outcome = Outcome.model_validate({"kind": kind, "reason": reason})
    return Episode.model_validate(
        {
            "task": task,
            "index": index,
            "seed": 7,
            "outcome": outcome,
            "start": start,
            "steps": [step],
            "seconds": 2.0,
            **fields,
        }
    )


def begin(folder: Path, **changes: object) -> RunStore:
    return RunStore.open(folder, config={**CONFIG, **changes}, command="rig")  # pyright: ignore[reportArgumentType]  JSON


def test_what_was_put_is_there_after_a_restart(tmp_path: Path) -> None:
    with begin(tmp_path / "new" / "run") as store:
        store.put_episode("k1", "baseline", episode())
        store.put_record("task_result", "template/t", {"status": "accepted", "rounds": [1, 2]})
        assert store.get_episode("k1") == episode()
    with begin(tmp_path / "new" / "run") as store:
        assert store.get_episode("k1") == episode()
        assert store.get_episode("k2") is None
        assert store.get_record("task_result", "template/t") == {"status": "accepted", "rounds": [1, 2]}
        assert store.get_record("task_result", "other") is None
        assert (store.config, store.command) == (CONFIG, "rig")


def test_what_is_noted_beside_an_episode_is_what_its_body_says(tmp_path: Path) -> None:
    used = Usage(calls=2, prompt=30, completion=4, cost=0.5)
    with begin(tmp_path) as store:
        store.put_episode("won", "baseline", episode())
        store.put_episode("lost", "round-1", episode("other", 3, "failure", reason="out_of_steps", usage=used))
        store.put_episode("died", "round-1", episode(kind="invalid", reason="worker_died", usage=used))
        assert store.episode_notes(["lost", "gone", "won"]) == [
            EpisodeNote("lost", "round-1", "other", 3, "failure", "out_of_steps", 1, 2.0),
            EpisodeNote("won", "baseline", "t", 0, "success", "", 1, 2.0),
        ]
        assert list(store.usages()) == [("other", used), ("t", used)]
    with begin(tmp_path) as store:
        store.put_episode("died", "round-1", episode(usage=used))
        (note,) = store.episode_notes(["died"])
        assert note.outcome == "success"
        assert list(store.usages()) == [("other", used), ("t", used + used)], "the attempt that was lost is paid for"


def test_tokens_beyond_what_sqlite_can_count_are_kept(tmp_path: Path) -> None:
    used = Usage(calls=1, prompt=2**70)
    with begin(tmp_path) as store:
        store.put_episode("k", "baseline", episode(usage=used))
        assert list(store.usages()) == [("t", used)]


def test_keys_are_found_by_their_start(tmp_path: Path) -> None:
    with begin(tmp_path) as store:
        for index, key in enumerate(["ab1", "ab2", "a%", "b"]):
            store.put_episode(key, "baseline", episode(index=index))
        assert store.episode_keys(prefix="ab") == ["ab1", "ab2"]
        assert store.episode_keys(prefix="a%") == ["a%"]
        assert store.episode_keys(task="u") == []
        assert len(store.episode_keys()) == 4


def test_no_listing_sorts_or_reads_all_episodes(tmp_path: Path) -> None:
    """A listing is an index read in order; what a step costs does not grow with the run."""
    with begin(tmp_path) as store:
        plans = {
            "SELECT key, phase FROM episodes WHERE 1 ORDER BY phase, task, position, key": "episodes_in_order",
            "SELECT key, phase FROM episodes WHERE task = 't' ORDER BY phase, task, position, key": "episodes_of_task",
            "SELECT task, usage FROM episodes WHERE usage <> '' ORDER BY task, usage": "episodes_that_cost",
        }
        for query, index in plans.items():
            (plan,) = [row[3] for row in store._connection.execute(f"EXPLAIN QUERY PLAN {query}")]
            assert f"COVERING INDEX {index}" in plan


def test_an_episode_may_be_put_while_others_are_read(tmp_path: Path) -> None:
    with begin(tmp_path) as store:
        for index in range(3):
            store.put_episode(f"k{index}", "baseline", episode(index=index))
        seen: list[str] = []
        for key, _, _ in store.episodes():
            seen.append(key)
            store.put_episode(f"new-{key}", "baseline", episode(index=9))
        assert seen == ["k0", "k1", "k2"]


def test_the_first_episode_of_a_key_stays(tmp_path: Path) -> None:
    with begin(tmp_path) as store:
        store.put_episode("k", "baseline", episode(seconds=1.0))
        store.put_episode("k", "round-1", episode(kind="failure"))
        assert [(phase, found.success) for _, phase, found in store.episodes()] == [("baseline", True)]


def test_a_resume_runs_invalid_episodes_again_but_not_component_faults(tmp_path: Path) -> None:
    with begin(tmp_path) as store:
        store.put_episode("died", "baseline", episode(kind="invalid", reason="worker_died"))
        store.put_episode("fault", "baseline", episode(kind="invalid", reason="component_fault"))
        lost = store.get_episode("died")
        assert lost is not None, "within one start it must not be run for ever"
        assert not lost.valid
    with begin(tmp_path) as store:
        assert store.get_episode("died") is None
        assert store.get_episode("fault") is not None
        assert len(list(store.episodes())) == 2
        store.put_episode("died", "baseline", episode())
        store.put_episode("fault", "baseline", episode())
        again, fault = store.get_episode("died"), store.get_episode("fault")
        assert again is not None
        assert again.success
        assert fault is not None
        assert not fault.valid


def test_an_episode_that_stays_invalid_is_asked_for_at_every_start(tmp_path: Path) -> None:
    for attempt in (1, 2, 3):
        with begin(tmp_path) as store:
            assert store.get_episode("died") is None
            store.put_episode("died", "baseline", episode(kind="invalid", reason="worker_died", attempt=attempt))
            found = store.get_episode("died")
            assert found is not None
            assert found.attempt == attempt
    with RunStore.read(tmp_path) as store:
        assert store.get_episode("died") is not None


def test_episodes_come_in_a_canonical_order_and_can_be_chosen(tmp_path: Path) -> None:
    with begin(tmp_path) as store:
        for key, phase, task, index in [
            ("e", "b", "t1", 0), ("d", "a", "t2", 10), ("c", "a", "t2", 9), ("b", "a", "t1", 1), ("a", "a", "t1", 1),
        ]:  # fmt: skip
            store.put_episode(key, phase, episode(task, index))
        assert [key for key, _, _ in store.episodes()] == ["a", "b", "c", "d", "e"]
        assert [key for key, _, _ in store.episodes(task="t1")] == ["a", "b", "e"]
        assert [key for key, _, _ in store.episodes(task="t1", phase="b")] == ["e"]
        for key, phase, found in store.episodes(phase="a"):  # writing while reading is allowed
            store.put_episode(f"{key}+", f"{phase}+", found)
        assert len(list(store.episodes())) == 9


def test_a_decision_is_never_rewritten(tmp_path: Path) -> None:
    with begin(tmp_path) as store:
        store.put_record("round", "t/1", {"decision": "accept", "seconds": 1, "measured": {"worker": "a", "rate": 0.5}})
        store.put_record("round", "t/1", {"seconds": 9, "decision": "accept", "measured": {"worker": "b", "rate": 0.5}})
        assert store.get_record("round", "t/1") == {
            "decision": "accept", "seconds": 1, "measured": {"worker": "a", "rate": 0.5},
        }  # fmt: skip
        with pytest.raises(StoreError, match="record round 't/1' is there already and differs"):
            store.put_record("round", "t/1", {"decision": "reject"})
        store.put_record("live/progress", "t", {"done": 1})
        store.put_record("live/progress", "t", {"done": 2})
        assert store.get_record("live/progress", "t") == {"done": 2}
        store.put_record("round", "t/0", {})
        assert [key for key, _ in store.records("round")] == ["t/0", "t/1"]


def test_a_record_that_is_not_json_is_refused(tmp_path: Path) -> None:
    with begin(tmp_path) as store:
        for body in ({"x": float("nan")}, {"x": {1, 2}}):
            with pytest.raises(StoreError, match="record round 'x' is not JSON"):
                store.put_record("round", "x", body)  # pyright: ignore[reportArgumentType]  on purpose
        assert store.get_record("round", "x") is None


def test_another_configuration_is_refused_with_the_keys_that_differ(tmp_path: Path) -> None:
    begin(tmp_path).close()
    with pytest.raises(ConfigChangedError) as caught:
        begin(tmp_path, seed=2, policy={"id": "solver", "options": {}}, rounds=5)
    for part in ("policy.options.skill was 0.5, is now null", "rounds was null, is now 5", "seed was 1, is now 2"):
        assert part in str(caught.value)
    assert "policy.id" not in str(caught.value)
    with pytest.raises(ConfigChangedError, match='command was "rig", is now "run"'):
        RunStore.open(tmp_path, config=CONFIG, command="run")
    begin(tmp_path).close()  # and nothing was changed or left locked by the attempts


def test_a_version_that_may_decide_otherwise_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    begin(tmp_path).close()
    with RunStore.read(tmp_path) as store:
        assert store.version == __version__
        content = store.export_canonical()
    monkeypatch.setattr(database, "VERSION", "9.4.2")
    with pytest.raises(ConfigChangedError, match=rf"begun with envharness {__version__}, and 9\.4\.2 may decide"):
        begin(tmp_path)
    ours = ".".join(__version__.split(".")[:2])
    monkeypatch.setattr(database, "VERSION", f"{ours}.99")
    with begin(tmp_path) as store:
        assert store.version == __version__, "what began it is what counts"
        assert store.export_canonical() == content


def test_a_run_of_a_version_that_said_nothing_goes_on(tmp_path: Path) -> None:
    begin(tmp_path).close()
    with sqlite3.connect(tmp_path / "run.sqlite3") as connection:
        connection.execute("DELETE FROM facts WHERE name = 'version'")
    connection.close()
    begin(tmp_path).close()


def test_a_fresh_run_may_be_insisted_on(tmp_path: Path) -> None:
    begin(tmp_path).close()
    with pytest.raises(StoreError, match="holds a run already"):
        RunStore.open(tmp_path, config=CONFIG, command="rig", resume=False)
    RunStore.open(tmp_path / "other", config=CONFIG, command="rig", resume=False).close()


def test_a_second_writer_is_told_who_the_first_is(tmp_path: Path) -> None:
    import os
    import socket

    with begin(tmp_path), pytest.raises(RunLockedError) as caught:
        begin(tmp_path)
    assert f"process {os.getpid()} on {socket.gethostname()} since 2" in str(caught.value)
    begin(tmp_path).close()


def test_readers_see_a_run_in_progress_and_cannot_change_it(tmp_path: Path) -> None:
    with begin(tmp_path) as writer:
        writer.put_episode("k1", "a", episode())
        with RunStore.read(tmp_path) as reader:
            assert reader.get_episode("k1") is not None
            writer.put_episode("k2", "a", episode())
            assert reader.get_episode("k2") is not None
            assert reader.config == CONFIG
            with pytest.raises(StoreError, match="opened for reading"):
                reader.put_record("round", "x", {})
            with pytest.raises(StoreError, match="opened for reading"):
                reader.put_episode("k3", "a", episode())


def test_the_canonical_export_leaves_out_circumstances_and_nothing_else(tmp_path: Path) -> None:
    exports: list[bytes] = []
    for number, keys in enumerate((["k1", "k2"], ["k2", "k1"])):
        with begin(tmp_path / str(number)) as store:
            for key in keys:
                store.put_episode(
                    key, "a", episode(index=int(key[1]), seconds=number, worker=f"w{number}", attempt=number)
                )
            store.put_record(
                "summary", "template", {"seconds": number, "run_dir": str(tmp_path / str(number)), "won": 2}
            )
            store.put_record("live/progress", "t", {"done": number})
            exports.append(store.export_canonical())
    assert exports[0] == exports[1]
    lines = [json.loads(line) for line in exports[0].splitlines()]
    assert lines[0] == {"command": "rig", "config": CONFIG}
    assert [line.get("key") for line in lines[1:]] == ["k1", "k2", "template"]
    first = lines[1]["episode"]
    assert first["steps"][0]["state"] == {"seconds": 4, "worker": "Ann"}, "content, whatever it is called"
    assert first["steps"][0]["action"]["kwargs"]["count"] == 2**80
    for name in ("seconds", "env_seconds", "policy_seconds", "attempt"):
        assert name not in first
        assert name not in first["start"]
        assert name not in first["steps"][0]
    assert lines[3]["record"] == {"won": 2}
    with begin(tmp_path / "0") as store:
        assert store.export_canonical() == exports[0], "a resume changes nothing"
        store.put_episode("k3", "a", episode(kind="failure"))
        assert store.export_canonical() != exports[0]


def test_reading_what_is_no_run_says_so(tmp_path: Path) -> None:
    with pytest.raises(StoreError, match="holds no run"):
        RunStore.read(tmp_path / "nowhere")
    sqlite3.connect(tmp_path / "run.sqlite3").close()
    (tmp_path / "run.sqlite3").touch()
    with pytest.raises(StoreError, match="the database is empty"):
        RunStore.read(tmp_path)
    begin(tmp_path).close()  # while a writer begins there


@pytest.mark.parametrize("way", ["read", "open"])
@pytest.mark.parametrize(
    ("content", "message"),
    [
        (b"not a database at all, but long enough to be one. " * 20, "this is not a run database"),
        ("CREATE TABLE songs (title)", "a database of another program"),
        ("PRAGMA application_id = 7", "a database of another program"),
        ("PRAGMA application_id = 1164867144; PRAGMA user_version = 99", "schema version 99 is not known here"),
        ("PRAGMA application_id = 1164867144; PRAGMA user_version = 3", "no such table"),
    ],
)
def test_foreign_files_are_refused_and_left_alone(tmp_path: Path, way: str, content: bytes | str, message: str) -> None:
    path = tmp_path / "run.sqlite3"
    if isinstance(content, bytes):
        path.write_bytes(content)
    else:
        connection = sqlite3.connect(path)
        connection.executescript(content)
        connection.close()
    before = path.read_bytes()
    with pytest.raises(StoreError, match=message) as caught:
        begin(tmp_path) if way == "open" else RunStore.read(tmp_path)
    assert str(path) in str(caught.value)
    assert "\n" not in str(caught.value)
    if "no such table" not in message:
        assert path.read_bytes() == before
    path.unlink()
    begin(tmp_path).close()  # the lock was given back


def test_damage_is_named(tmp_path: Path) -> None:
    with begin(tmp_path) as store:
        store.put_episode("k1", "a", episode())
        store.put_record("round", "r", {})
    connection = sqlite3.connect(tmp_path / "run.sqlite3")
    connection.execute("UPDATE episodes SET body = x'00'")
    connection.execute("UPDATE records SET body = '{'")
    connection.commit()
    connection.close()
    with RunStore.read(tmp_path) as store:
        with pytest.raises(StoreError, match="episode k1 is damaged"):
            store.get_episode("k1")
        with pytest.raises(StoreError, match="record round 'r' is damaged"):
            store.get_record("round", "r")


def test_a_file_cut_short_is_a_clear_error(tmp_path: Path) -> None:
    with begin(tmp_path) as store:
        for index in range(50):
            store.put_episode(f"k{index}", "a", episode(index=index))
    path = tmp_path / "run.sqlite3"
    path.write_bytes(path.read_bytes()[:9000])
    with pytest.raises(StoreError, match="the database is damaged"), RunStore.read(tmp_path) as store:
        list(store.episodes())


def test_a_foreign_program_that_holds_the_database_is_a_clear_error(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(schema, "BUSY_SECONDS", 0.1)
    with begin(tmp_path) as store:
        program = (
            "import sqlite3, sys; c = sqlite3.connect(sys.argv[1], isolation_level=None); c.execute('BEGIN IMMEDIATE')\n"
            "print('held', flush=True); sys.stdin.read()"
        )
        other = subprocess.Popen(
            [sys.executable, "-c", program, tmp_path / "run.sqlite3"], stdin=subprocess.PIPE, stdout=subprocess.PIPE
        )
        assert other.stdout is not None
        assert other.stdout.readline() == b"held\n"
        pid = other.pid
        with pytest.raises(StoreError, match=f"process {pid} .* held the database for 0.1 s; close it"):
            store.put_episode("k1", "a", episode())
        other.communicate()
        store.put_episode("k1", "a", episode())
        assert store.get_episode("k1") is not None
