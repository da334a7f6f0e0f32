"""From a suite that was played once to its variants: deterministic, from recorded rollouts and schemas alone."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from envharness.campaign.harden.config import KINDS, HardenConfig, Kind
from envharness.campaign.harden.habits import habit_cases
from envharness.campaign.harden.moved import chained_cases, staged_cases
from envharness.campaign.harden.suite import Case, PlayedTask
from envharness.campaign.harden.unavailable import field_cases, tool_cases

_MAKERS: dict[Kind, Callable[[Sequence[PlayedTask]], list[list[Case]]]] = {
    "tools": tool_cases,
    "fields": field_cases,
    "habits": habit_cases,
    "staged": staged_cases,
    "chained": chained_cases,
}


@dataclass(frozen=True)
class Derived:
    """The variants of a suite, each as its cases, and how many of a kind were left out."""

    variants: tuple[tuple[Case, ...], ...]
    left_out: dict[str, int]


def derive(tasks: Sequence[PlayedTask], config: HardenConfig) -> Derived:
    """Derive the variants of the kinds asked for, `config.most` of each kind at most."""
    variants: list[tuple[Case, ...]] = []
    left_out: dict[str, int] = {}
    for kind in KINDS:
        if kind in config.variants:
            made = [tuple(cases) for cases in _MAKERS[kind](tasks) if cases]
            variants += made[: config.most]
            if len(made) > config.most:
                left_out[kind] = len(made) - config.most
    return Derived(tuple(variants), left_out)
