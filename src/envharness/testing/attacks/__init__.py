"""Hostile hooks, what stops each of them, and the self-test that shows it on this system."""

from __future__ import annotations

from envharness.testing.attacks.attack import Attack, AttackResult, Control, Layer
from envharness.testing.attacks.selftest import ATTACKS, control_harm, naive_harms, run_attack, run_selftest

__all__ = [
    "ATTACKS",
    "Attack",
    "AttackResult",
    "Control",
    "Layer",
    "control_harm",
    "naive_harms",
    "run_attack",
    "run_selftest",
]
