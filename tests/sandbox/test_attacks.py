"""Every hostile hook is stopped, by the layer that is meant to, and would do harm where nothing stopped it."""

from __future__ import annotations

import time
from collections import Counter
from pathlib import Path

import pytest

from envharness.sandbox.launcher import current_zygote
from envharness.testing.attacks import ATTACKS, Attack, Control, control_harm, naive_harms, run_attack

ELSEWHERE = [attack for attack in ATTACKS if attack.control is not Control.NAIVE]


def by_name(attack: Attack) -> str:
    return attack.name


def hook_processes() -> list[str]:
    """What runs in the zygote's own process session: forks of a hook, and forks of those.

    Neither the zygote itself counts nor the one process that it makes ahead for the session to come.
    """
    zygote = str(current_zygote().process.pid)
    found: list[str] = []
    made_ahead = 1
    for status in Path("/proc").glob("[0-9]*/stat"):
        try:
            fields = status.read_text(encoding="utf-8", errors="replace").rpartition(")")[2].split()
        except (FileNotFoundError, ProcessLookupError):
            continue
        if fields[3] == zygote and status.parent.name != zygote:
            if fields[1] == zygote and made_ahead:
                made_ahead -= 1
            else:
                found.append(status.parent.name)
    return found


def left_behind() -> list[str]:
    """What is still there once the zygote had time to reap the process of a session that was closed."""
    deadline = time.monotonic() + 2.0
    while (found := hook_processes()) and time.monotonic() < deadline:
        time.sleep(0.01)
    return found


@pytest.mark.parametrize("attack", ATTACKS, ids=by_name)
def test_the_attack_is_stopped_and_leaves_nothing_behind(attack: Attack) -> None:
    result = run_attack(attack)
    assert result.stopped, result.harm
    assert result.layer in result.expected, result.detail
    assert left_behind() == []


@pytest.fixture(scope="module")
def naive() -> dict[str, list[str]]:
    return naive_harms([attack for attack in ATTACKS if attack.control is Control.NAIVE])


@pytest.mark.parametrize("attack", [a for a in ATTACKS if a.control is Control.NAIVE], ids=by_name)
@pytest.mark.slow
def test_without_a_process_boundary_the_attack_succeeds(attack: Attack, naive: dict[str, list[str]]) -> None:
    if not naive[attack.name] and attack.not_shown:
        pytest.skip(attack.not_shown)
    assert naive[attack.name]


@pytest.mark.slow
@pytest.mark.parametrize("attack", ELSEWHERE, ids=by_name)
def test_without_what_stops_it_the_attack_succeeds(attack: Attack) -> None:
    harm = control_harm(attack)
    if not harm and attack.not_shown:
        pytest.skip(attack.not_shown)
    assert harm


def test_a_harmless_contract_is_no_attack_to_any_control() -> None:
    honest = "class _Contract(Contract):\n    def filter_action(self, action, env_state): return action\n"
    for control in Control:
        attack = Attack("honest", "none", honest, (), control)
        assert control_harm(attack) == [], control


def test_there_are_many_attacks_of_every_kind_and_no_two_of_one_name() -> None:
    kinds = Counter(attack.kind for attack in ATTACKS)
    assert len(ATTACKS) >= 100
    assert min(kinds.values()) >= 8, kinds
    assert len({attack.name for attack in ATTACKS}) == len(ATTACKS)
