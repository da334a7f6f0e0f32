"""Processes: what a zygote's death, a fork, a thread, a signal or a lost parent does to sessions, and what is left."""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from envharness.core.errors import HookFault, SandboxUnavailableError, SpecError, ZygoteError
from envharness.core.types import Action, Blocked, EnvResponse, Observation
from envharness.sandbox import HookLimits, HookSession, launcher, open_session, sandbox_support, stop_zygote
from envharness.sandbox.guard import REQUIRED_LAYERS

pytestmark = pytest.mark.slow

ECHO = """
class _Contract(Contract):
    def filter_action(self, action, env_state):
        return Blocked(reason=f"{action.name} {env_state.get('n')}")
"""
LOOP = "class _Contract(Contract):\n    def filter_action(self, action, env_state):\n        while True: pass\n"


def ask(session: HookSession, name: str = "a", n: int = 0) -> str:
    answer = session.filter_action(Action(name=name), {"n": n})
    assert isinstance(answer, Blocked)
    return answer.reason


def alive(pid: int) -> bool:
    """Whether the process runs; one that has ended and waits for its parent does not."""
    try:
        return Path(f"/proc/{pid}/stat").read_text(encoding="utf-8").rpartition(")")[2].split()[0] not in "ZX"
    except (FileNotFoundError, ProcessLookupError):
        return False


def soon(condition: Callable[[], bool], seconds: float = 10.0) -> bool:
    deadline = time.monotonic() + seconds
    while not condition():
        if time.monotonic() > deadline:
            return False
        time.sleep(0.01)
    return True


def descendants(pid: int) -> list[int]:
    found: list[int] = []
    for task in Path(f"/proc/{pid}/task").glob("*/children"):
        for child in task.read_text(encoding="ascii").split():
            found += [int(child), *descendants(int(child))]
    return found


def test_close_kills_at_once_and_may_be_repeated() -> None:
    session = open_session(ECHO, seed=1)
    assert alive(session.pid)
    session.close()
    assert soon(lambda: not Path(f"/proc/{session.pid}").exists(), 1.0)
    session.close()
    with pytest.raises(HookFault, match="the session was closed"):
        ask(session)


def test_a_hook_process_runs_in_the_session_that_the_attack_tests_look_at() -> None:
    with open_session(ECHO, seed=1) as session:
        assert os.getsid(session.pid) == launcher.current_zygote().process.pid


def test_a_fault_is_told_only_when_its_process_is_gone() -> None:
    session = open_session(LOOP, seed=1, limits=HookLimits(call_seconds=0.2))
    with pytest.raises(HookFault, match="no answer within"):
        ask(session)
    assert not Path(f"/proc/{session.pid}").exists()


def made_ahead() -> list[int]:
    return descendants(launcher.current_zygote().process.pid)


def test_one_process_is_made_ahead_for_the_next_session_of_the_same_limits() -> None:
    stop_zygote()
    open_session(ECHO, seed=1).close()
    assert soon(lambda: len(made_ahead()) == 1)
    (spare,) = made_ahead()
    with open_session(ECHO, seed=1) as session:
        assert session.pid == spare
        assert ask(session) == "a 0"
    assert soon(lambda: len(made_ahead()) == 1)


def test_a_process_made_ahead_for_other_limits_is_ended_unused() -> None:
    open_session(ECHO, seed=1).close()
    assert soon(lambda: len(made_ahead()) == 1)
    (spare,) = made_ahead()
    with open_session(ECHO, seed=1, limits=HookLimits(memory_bytes=300 * 2**20)) as session:
        assert session.pid != spare
        assert not Path(f"/proc/{spare}").exists()
        assert "300 MiB" in session.layers["rlimits"]
    with open_session(ECHO, seed=1, unsafe=True) as session:
        assert "seccomp" not in session.layers
    with open_session(ECHO, seed=1) as session:
        assert set(REQUIRED_LAYERS) <= set(session.layers)


def test_a_process_made_ahead_that_died_is_replaced() -> None:
    open_session(ECHO, seed=1).close()
    assert soon(lambda: len(made_ahead()) == 1)
    (spare,) = made_ahead()
    os.kill(spare, signal.SIGKILL)
    assert soon(lambda: not Path(f"/proc/{spare}").exists())
    with open_session(ECHO, seed=1) as session:
        assert session.pid != spare
        assert ask(session) == "a 0"


def test_a_hook_process_has_no_descriptor_but_its_socket() -> None:
    with open_session(ECHO, seed=1), open_session(ECHO, seed=2) as session:
        assert {entry.name for entry in Path(f"/proc/{session.pid}/fd").iterdir()} == {"0", "1", "2", "3"}


def test_many_sessions_live_at_once_on_many_threads() -> None:
    def episode(number: int) -> list[str]:
        with open_session(ECHO, seed=number) as first, open_session(ECHO, seed=number) as second:
            return [ask(first, "f", number), ask(second, "s", number)]

    with ThreadPoolExecutor(4) as pool:
        assert list(pool.map(episode, range(24))) == [[f"f {n}", f"s {n}"] for n in range(24)]
    assert threading.active_count() < 4


def test_a_dead_zygote_is_the_machines_fault_and_is_replaced() -> None:
    session = open_session(ECHO, seed=1)
    zygote = launcher.current_zygote().process
    zygote.kill()
    zygote.wait()
    assert soon(lambda: not alive(session.pid))
    with pytest.raises(ZygoteError, match="zygote is gone"):
        ask(session)
    session.close()
    with open_session(ECHO, seed=1) as again:
        assert ask(again) == "a 0"


def test_a_hook_that_is_given_no_cpu_is_the_machines_fault() -> None:
    with open_session(ECHO, seed=1, limits=HookLimits(call_seconds=0.3)) as session:
        os.kill(session.pid, signal.SIGSTOP)
        with pytest.raises(ZygoteError, match="hardly any CPU"):
            ask(session)


def test_a_hook_that_is_killed_from_outside_is_a_fault_that_says_so() -> None:
    with open_session(ECHO, seed=1) as session:
        os.kill(session.pid, signal.SIGKILL)
        with pytest.raises(HookFault, match=r"its process was killed \(SIGKILL\)"):
            ask(session)


def test_an_interrupt_in_mid_call_ends_the_session() -> None:
    with open_session(LOOP, seed=1, limits=HookLimits(call_seconds=20)) as session:
        timer = threading.Timer(0.2, signal.pthread_kill, (threading.main_thread().ident, signal.SIGINT))
        timer.start()
        with pytest.raises(KeyboardInterrupt):
            ask(session)
        timer.join()
        assert not alive(session.pid)
        with pytest.raises(HookFault, match="interrupted"):
            ask(session)


def test_a_forked_worker_gets_a_zygote_of_its_own_and_leaves_ours_alone() -> None:
    with open_session(ECHO, seed=1) as session:
        ours = launcher.current_zygote().process.pid
        pid = os.fork()
        if pid == 0:
            status = 1
            try:
                session.close()  # a copy: must not end the original's process
                with open_session(ECHO, seed=1) as own:
                    status = 0 if ask(own) == "a 0" and launcher.current_zygote().process.pid != ours else 2
                stop_zygote()
            finally:
                os._exit(status)
        assert os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]) == 0
        assert ask(session) == "a 0"
        assert launcher.current_zygote().process.pid == ours


def test_nothing_outlives_a_killed_parent() -> None:
    program = f"""
from envharness.sandbox import HookLimits, open_session
from envharness.core.types import Action
idle = open_session({ECHO!r}, seed=1)
busy = open_session({LOOP!r}, seed=1, limits=HookLimits(call_seconds=60))
print("ready", flush=True)
busy.filter_action(Action(name="x"), {{}})
"""
    parent = subprocess.Popen([sys.executable, "-c", program], stdout=subprocess.PIPE)
    assert parent.stdout is not None
    assert parent.stdout.readline() == b"ready\n"
    # The zygote, two hook processes, and one that it makes ahead a moment after it gave the second away.
    assert soon(lambda: len(descendants(parent.pid)) == 4)
    family = descendants(parent.pid)
    parent.kill()
    parent.wait()
    parent.stdout.close()
    assert soon(lambda: not any(alive(pid) for pid in family))


def test_nothing_outlives_a_parent_that_ends_without_closing() -> None:
    program = f"from envharness.sandbox import open_session; s = open_session({ECHO!r}, seed=1); print(s.pid)"
    finished = subprocess.run([sys.executable, "-c", program], stdout=subprocess.PIPE, check=True, timeout=60)
    assert soon(lambda: not alive(int(finished.stdout)))


def test_the_hook_process_sees_no_variable_of_ours(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SOME_API_KEY", "hidden")
    stop_zygote()
    source = """
import enum
class _Contract(Contract):
    def filter_action(self, action, env_state):
        return Blocked(reason=" ".join(enum.sys.modules["os"].environ))
"""
    with open_session(source, seed=1) as session:
        # LC_CTYPE is Python's own, for want of a locale.
        assert set(ask(session).split()) <= {"LC_CTYPE", "PYTHONHASHSEED", "TZ"}
        zygote = Path(f"/proc/{launcher.current_zygote().process.pid}/environ").read_bytes()
        assert b"hidden" not in zygote


def test_the_hook_process_does_not_load_the_parents_side() -> None:
    source = """
import enum
class _Contract(Contract):
    def filter_action(self, action, env_state):
        return Blocked(reason=" ".join(sorted(m for m in enum.sys.modules if m.startswith("envharness"))))
"""
    with open_session(source, seed=1) as session:
        loaded = ask(session).split()
    assert "envharness.sandbox.hook_process" in loaded
    assert not {"envharness.sandbox.session", "envharness.sandbox.launcher", "envharness.components"} & set(loaded)


def test_this_system_offers_every_required_layer() -> None:
    support = sandbox_support()
    assert support.available, support.missing
    assert support.missing == ()
    assert {layer.name for layer in support.layers if layer.required} == set(REQUIRED_LAYERS)
    assert all(layer.detail for layer in support.layers)


@pytest.mark.parametrize(
    ("layer", "sabotage"),
    [
        ("landlock", "guard._LANDLOCK_CREATE_RULESET = 9999"),
        ("seccomp", "guard.syscall_table = lambda: None"),
        ("seccomp", "guard.build_filter = lambda *a: __import__('struct').pack('<HBBI', 6, 0, 0, 0x7fff0000)"),
        ("no_new_privs", "guard._PR_SET_NO_NEW_PRIVS = 9999"),
        ("rlimits", "guard.resource.setrlimit = lambda *a: (_ for _ in ()).throw(ValueError('no'))"),
    ],
)
def test_without_a_required_layer_no_source_is_read(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, layer: str, sabotage: str
) -> None:
    boot = launcher._BOOT.replace("; main(", f"; import envharness.sandbox.guard as guard; {sabotage}; main(")
    monkeypatch.setattr(launcher, "_BOOT", boot)
    stop_zygote()
    try:
        report = sandbox_support()
        assert not report.available
        assert report.missing[0].name == layer  # without no_new_privs the kernel refuses those after it, too
        read = tmp_path / "read"
        with pytest.raises(SandboxUnavailableError, match=rf"cannot confine hook code \({layer}.*--unsafe-hooks"):
            open_session(f"import enum\nenum.sys.modules['os'].mkdir({str(read)!r})\n{ECHO}", seed=1)
        assert not read.exists()
        with open_session(ECHO, seed=1, unsafe=True) as session:
            assert ask(session) == "a 0"
    finally:
        stop_zygote()


def test_a_zygote_that_cannot_start_says_why(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(launcher, "_BOOT", "raise SystemExit('the disk is full')")
    stop_zygote()
    with pytest.raises(ZygoteError, match="does not start: the disk is full"):
        open_session(ECHO, seed=1)
    monkeypatch.undo()
    with open_session(ECHO, seed=1) as session:
        assert ask(session) == "a 0"


def test_another_system_is_refused_unless_the_user_insists(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "platform", "darwin")
    assert not sandbox_support().available
    with pytest.raises(SandboxUnavailableError, match=r"Linux only, and this is darwin.*--unsafe-hooks"):
        open_session(ECHO, seed=1)
    with open_session(ECHO, seed=1, unsafe=True) as session:
        assert ask(session) == "a 0"


def test_a_state_goes_over_once_while_it_stays_the_same(monkeypatch: pytest.MonkeyPatch) -> None:
    sent: list[int] = []
    with open_session(ECHO, seed=1) as session:
        exchange = session._channel.exchange

        def counting(frame: bytes, request_id: int, seconds: float) -> bytes:
            sent.append(len(frame))
            return exchange(frame, request_id, seconds)

        monkeypatch.setattr(session._channel, "exchange", counting)
        for text in ("x" * 5000, "x" * 5000, "y" * 5000):
            session.filter_action(Action(name="a"), {"text": text})
    assert [size > 5000 for size in sent] == [True, False, True]


def test_what_cannot_be_sent_to_a_hook_is_not_the_hooks_fault() -> None:
    source = "class _Contract(Contract):\n    def modify_transition(self, a, r, s): return r\n"
    shown = Observation(text="x")
    with open_session(source, seed=1, limits=HookLimits(frame_bytes=4096)) as session:
        with pytest.raises(SpecError, match=r"^state: not JSON"):
            session.after_transition(Action(name="a"), EnvResponse(observation=shown), {"big": 2**70})
        with pytest.raises(SpecError, match=r"raise HookLimits\.frame_bytes"):
            session.after_transition(Action(name="a"), EnvResponse(observation=shown), {"text": "x" * 5000})
        with pytest.raises(SpecError, match=r"^response\.reward: nan"):
            session.after_transition(Action(name="a"), EnvResponse(observation=shown, reward=float("nan")), {})
        assert session.after_transition(Action(name="a"), EnvResponse(observation=shown), {}).observation == shown


def _interpreter_for_nobody() -> str | None:
    """A Python of this version that user nobody may start."""
    name = f"python{sys.version_info.major}.{sys.version_info.minor}"
    for candidate in (sys.executable, f"/usr/bin/{name}", f"/usr/local/bin/{name}", shutil.which(name) or ""):
        try:
            subprocess.run([candidate, "-c", ""], user=65534, check=True, cwd="/")
        except (OSError, subprocess.CalledProcessError):
            continue
        return candidate
    return None


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can become nobody, and everybody else is unprivileged already")
def test_it_needs_no_privilege() -> None:
    interpreter = _interpreter_for_nobody()
    if interpreter is None:
        pytest.skip("no Python of this version that user nobody may start")
    program = f"""
import json, sys
sys.path[:0] = json.loads(sys.argv[1])
from envharness.core.types import Action
from envharness.sandbox import open_session, sandbox_support
assert sandbox_support().available, sandbox_support()
with open_session({ECHO!r}, seed=1) as session:
    print(session.filter_action(Action(name="x"), {{}}).reason)
"""
    places = [str(Path(launcher.__file__).parents[2]), *(entry for entry in sys.path if "site-packages" in entry)]
    finished = subprocess.run(
        [interpreter, "-c", program, str(places).replace("'", '"')],
        user=65534,
        group=65534,
        extra_groups=[],
        cwd="/",
        env={},
        check=False,
        capture_output=True,
        text=True,
    )
    assert finished.stdout == "x None\n", finished.stderr
