"""The weaknesses a policy declares about itself, so that a report can say which of them a run found."""

from __future__ import annotations

import sys
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass
from importlib import import_module
from types import ModuleType
from typing import cast

from pydantic import JsonValue

from envharness.core.errors import PluginError, UnknownIdError
from envharness.core.registry import load


@dataclass(frozen=True)
class Weakness:
    """One weakness a policy is known to have."""

    name: str
    description: str
    shows_as: tuple[str, ...] = ()
    """The flaws it shows as in a diagnosis; empty where the policy does not say, and the names are compared."""
    has_template: bool = True
    """False where no component template was written for it."""

    def is_among(self, flaws: Iterable[str]) -> bool:
        """Whether it is one of the flaws that were found.

        Where the policy does not say what it shows as, the words of the names decide, since the two are named by people
        who never met: `repeats` is found as `repeats_actions`.
        """
        if self.shows_as:
            return any(flaw in self.shows_as for flaw in flaws)
        wanted = _stems(self.name)
        return any(wanted <= stems or stems <= wanted for stems in map(_stems, flaws))


def _stems(name: str) -> frozenset[str]:
    return frozenset(word.removesuffix("s") for word in name.split("_"))


def declared_weaknesses(policy: JsonValue) -> tuple[Weakness, ...]:
    """Return the weaknesses of a policy given as `{id, options}`; none where it declares none.

    They stand beside the policy, in its module or in a module `weaknesses` of its package: `WEAKNESSES` (name to
    description), and, where the author gives them, `SHOWS_AS` (name to the flaws it shows as) and `WITHOUT_TEMPLATE`
    (names). Those that the options turn off (strength 0) are left out. Only registered ids are looked up: a report
    never imports a `module:Class` that a run's file names.
    """
    fields = policy if isinstance(policy, dict) else {"id": policy}
    identifier, options = fields.get("id"), fields.get("options")
    if not isinstance(identifier, str) or ":" in identifier:
        return ()
    try:
        module = _declaring_module(load("policy", identifier).__module__)
    except (UnknownIdError, PluginError):
        return ()  # the policy is not installed where the report is written, which is no reason to write none
    if module is None:
        return ()
    strengths = options if isinstance(options, dict) else {}
    described = cast("Mapping[str, str]", vars(module)["WEAKNESSES"])
    shows_as = cast("Mapping[str, Collection[str]]", vars(module).get("SHOWS_AS", {}))
    without = cast("Collection[str]", vars(module).get("WITHOUT_TEMPLATE", ()))
    return tuple(
        Weakness(name, text, tuple(shows_as.get(name, ())), has_template=name not in without)
        for name, text in described.items()
        if strengths.get(name, 1) != 0
    )


def _declaring_module(policy_module: str) -> ModuleType | None:
    """Return the module that holds the policy's WEAKNESSES, or None; a module of that name is asked first."""
    modules = [sys.modules.get(policy_module)]
    if package := policy_module.rpartition(".")[0]:
        try:
            modules.insert(0, import_module(f"{package}.weaknesses"))
        except ModuleNotFoundError as error:
            if error.name != f"{package}.weaknesses":
                raise
    return next((module for module in modules if module is not None and "WEAKNESSES" in vars(module)), None)
