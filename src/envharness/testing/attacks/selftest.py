"""Runs every attack against this system's sandbox and says what stopped each."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
from collections.abc import Iterable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path
from time import monotonic, sleep

from envharness.core.errors import HookFault, MachineryError
from envharness.core.types import Action
from envharness.sandbox import HookLimits, open_session
from envharness.testing.attacks.attack import BREACH, SCRATCH, SECRET, Attack, AttackResult, Control, Layer
from envharness.testing.attacks.files import FILES
from envharness.testing.attacks.forgery import FORGERY
from envharness.testing.attacks.frames import FRAMES, VALUES
from envharness.testing.attacks.machine import KERNEL, NETWORK, PROCESSES
from envharness.testing.attacks.resources import RESOURCES
from envharness.testing.attacks.trusting import believed
from envharness.testing.attacks.victim import Encounter, attacked_episode

ATTACKS: tuple[Attack, ...] = (*FILES, *NETWORK, *PROCESSES, *KERNEL, *RESOURCES, *FRAMES, *VALUES, *FORGERY)
"""Every attack, grouped by kind."""

_REAP_SECONDS = 1.0
"""A closed session's process is killed at once and reaped when the zygote gets to it."""
_RETRIES = 3
"""Further attempts. A machine too busy to run a hook is no finding about the hook."""

_SIGNS = (
    (Layer.IMPORT_GATE, ("hook source cannot import",)),
    (Layer.DEADLINE, ("no answer within",)),
    (Layer.FRAMES, ("broke the protocol",)),
    (
        Layer.SECCOMP,
        # The last three are how Python words an EPERM from looking for a module, from clone and from setrlimit.
        ("Operation not permitted", "(SIGSYS)", "No module named", "can't start new thread", "not allowed to raise"),
    ),
    (Layer.LANDLOCK, ("Permission denied",)),
    (Layer.RLIMITS, ("MemoryError", "of CPU for the episode")),
    (Layer.CLEAN_START, ("no secret in",)),
    (
        Layer.REPLIES,
        (
            "wrong form",
            ": returned ",
            "not JSON",
            "not serializable",
            "the limit is",
            "no known form",
            "do not exist",
            "Recursion limit reached",
            "Dict key must",
            "is not JSON serializable",
        ),
    ),
)


def run_selftest(*, controls: bool = False, workers: int = 2) -> list[AttackResult]:
    """Attack the sandbox with every hostile hook there is.

    With `controls` each attack also runs where nothing stops it, in a scratch folder: real harm, on a small scale, so
    it is for development machines. Raises `SandboxUnavailableError` where hooks cannot be confined.
    """
    open_session("class _Contract(Contract): pass", seed=0).close()
    with ThreadPoolExecutor(workers) as pool:
        results = list(pool.map(run_attack, ATTACKS))
        if not controls:
            return results
        harms = dict(zip((a.name for a in ATTACKS), pool.map(_control_harm, ATTACKS), strict=True))
    harms |= naive_harms(attack for attack in ATTACKS if attack.control is Control.NAIVE)
    return [
        replace(result, control=_control_word(attack, harms[attack.name]))
        for attack, result in zip(ATTACKS, results, strict=True)
    ]


def run_attack(attack: Attack) -> AttackResult:
    """One attack on a confined hook process."""
    begin = monotonic()
    encounter, fault = _attempt(attack, unsafe=False)
    layer = _layer_of(fault)
    return AttackResult(
        name=attack.name,
        kind=attack.kind,
        stopped=not encounter.harm,
        layer="none" if encounter.harm else layer.value,
        expected=tuple(expected.value for expected in attack.stopped_by),
        detail=fault or "ran to its end, on copies",
        harm=tuple(encounter.harm),
        seconds=round(monotonic() - begin, 3),
    )


def control_harm(attack: Attack) -> list[str]:
    """What the attack does where nothing stops it; empty when it does nothing."""
    if attack.control is Control.NAIVE:
        return naive_harms([attack])[attack.name]
    return _control_harm(attack)


def _control_harm(attack: Attack) -> list[str]:
    if attack.control is Control.NAIVE:
        return []  # these share one process, started once
    if attack.control is Control.TRUSTING:
        return believed(attack.source, HookLimits())
    encounter, fault = _attempt(attack, unsafe=True)
    if attack.control is Control.HOLDS_ON and "no answer within" in fault:
        return ["lasts until the deadline"]
    return encounter.harm


def naive_harms(attacks: Iterable[Attack]) -> dict[str, list[str]]:
    """What the attacks do to a harness without a process boundary, by name."""
    lines = "".join(json.dumps({"name": a.name, "source": a.source}) + "\n" for a in attacks)
    finished = subprocess.run(
        [sys.executable, "-m", "envharness.testing.attacks.naive"],
        input=lines,
        env={**os.environ, "PLANTED": SECRET},
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        text=True,
        check=True,
    )
    found = [json.loads(line) for line in finished.stdout.splitlines()]
    return {finding["name"]: finding["harm"] for finding in found}


def _control_word(attack: Attack, harm: list[str]) -> str:
    if harm:
        return "succeeds"
    return f"not shown: {attack.not_shown}" if attack.not_shown else "fails"


def _attempt(attack: Attack, *, unsafe: bool) -> tuple[Encounter, str]:
    """The episode under attack in a fresh scratch folder: what was seen, and the fault or ""."""
    for _ in range(_RETRIES):
        try:
            return _in_scratch_folder(attack, unsafe=unsafe)
        except MachineryError:
            continue
    return _in_scratch_folder(attack, unsafe=unsafe)


def _in_scratch_folder(attack: Attack, *, unsafe: bool) -> tuple[Encounter, str]:
    with tempfile.TemporaryDirectory(prefix="envharness-attack-") as folder:
        return _under_attack(attack, Path(folder), unsafe=unsafe)


def _under_attack(attack: Attack, folder: Path, *, unsafe: bool) -> tuple[Encounter, str]:
    folder.chmod(0o777)  # so that it is the sandbox that refuses, not the folder
    victim = folder / "victim"
    victim.write_text("untouched", encoding="utf-8")
    victim.chmod(0o666)
    before = _fingerprint(folder)
    encounter = Encounter()
    limits = HookLimits(
        call_seconds=attack.call_seconds, load_seconds=max(attack.call_seconds, 2.0), cpu_seconds=attack.cpu_seconds
    )
    fault, pid = "", 0
    try:
        with open_session(attack.source.replace(SCRATCH, str(folder)), seed=1, limits=limits, unsafe=unsafe) as session:
            pid = session.pid
            attacked_episode(session, encounter)
    except HookFault as error:
        fault = str(error)
    encounter.harm += [text for text in (*encounter.shown, fault) if f"{BREACH} " in text]
    if _fingerprint(folder) != before:
        encounter.harm.append("files changed")
    if pid and _stays(pid):
        encounter.harm.append("a process was left behind")
    _next_session_works(encounter)
    return encounter, fault


def _stays(pid: int) -> bool:
    """Whether a process is still there a while after its session ended, dead and unreaped included."""
    deadline = monotonic() + _REAP_SECONDS
    while Path(f"/proc/{pid}").exists():
        if monotonic() > deadline:
            return True
        sleep(0.005)
    return False


def _next_session_works(encounter: Encounter) -> None:
    source = "class _Contract(Contract):\n    def filter_action(self, action, env_state): return Action(name='fine')"
    with open_session(source, seed=1) as session:
        if session.filter_action(Action(name="work"), {}) != Action(name="fine"):
            encounter.harm.append("the next session is not right")


def _fingerprint(folder: Path) -> list[tuple[str, int, bytes, int]]:
    found: list[tuple[str, int, bytes, int]] = []
    for path in sorted(folder.rglob("*")):
        status = path.lstat()
        found.append((path.name, status.st_mode, path.read_bytes() if path.is_file() else b"", status.st_mtime_ns))
    return found


def _layer_of(fault: str) -> Layer:
    """Which layer a fault shows; without a known sign it is the process boundary that held."""
    for layer, signs in _SIGNS:
        if any(sign in fault for sign in signs):
            return layer
    return Layer.PROCESS
