"""Ids to classes, imported on first use: dotted names of this package, entry points of others, and `module:Name`."""

from __future__ import annotations

import importlib
from collections.abc import Callable
from difflib import get_close_matches
from importlib.metadata import EntryPoint, entry_points
from typing import Any, Literal

from envharness.core.errors import PluginError, UnknownIdError

Kind = Literal["environment", "component", "policy", "designer"]

_GROUPS: dict[Kind, str] = {
    "environment": "envharness.bridges",
    "component": "envharness.components",
    "policy": "envharness.policies",
    "designer": "envharness.designers",
}

_BUILT_IN: dict[Kind, dict[str, str]] = {
    "environment": {
        "toy24": "envharness.bridges.toy24:Toy24",
        "alfworld": "envharness.bridges.alfworld:Alfworld",
    },
    "component": {
        "stage": "envharness.components.stage:Stage",
        "contract": "envharness.components.contract:Contract",
        "chain": "envharness.components.chain:Chain",
    },
    "policy": {
        "scripted": "envharness.policies.scripted:ScriptedPolicy",
        "random": "envharness.policies.random:RandomPolicy",
        "command": "envharness.policies.command:CommandPolicy",
        "llm": "envharness.policies.llm:LanguageModelPolicy",
        "solver": "envharness.bridges.toy24.solver:SolverPolicy",
        "household": "envharness.bridges.alfworld.household:HouseholdPolicy",
    },
    "designer": {
        "template": "envharness.rigger.designers.template:TemplateDesigner",
        "random": "envharness.rigger.designers.random:RandomDesigner",
        "blind": "envharness.rigger.designers.blind:BlindDesigner",
        "identity": "envharness.rigger.designers.identity:IdentityDesigner",
        "llm": "envharness.rigger.designers.llm:LanguageModelDesigner",
        "exploring": "envharness.rigger.designers.exploring:ExploringDesigner",
    },
}

_added: dict[Kind, dict[str, str]] = {kind: {} for kind in _GROUPS}


def register(kind: Kind, name: str, target: str) -> None:
    """Add an id for this process. `target` is `module:Name`; nothing is imported yet."""
    if ":" not in target:
        raise PluginError(f"{kind} {name!r}: target {target!r} is not of the form 'module:Name'")
    if name in _BUILT_IN[kind] or _added[kind].get(name, target) != target:
        raise PluginError(f"{kind} {name!r} is registered already")
    _added[kind][name] = target


def names(kind: Kind) -> list[str]:
    """Return all ids of a kind in sorted order, without importing any of them."""
    return sorted({*_BUILT_IN[kind], *_added[kind], *_plugins(kind)})


def target(kind: Kind, name: str) -> str:
    """Return the `module:Name` that an id stands for. Raises UnknownIdError."""
    if ":" in name:
        return name
    found = _BUILT_IN[kind].get(name) or _added[kind].get(name)
    if found is None:
        plugin = _plugins(kind).get(name)
        found = plugin.value if plugin else None
    if found is None:
        known = names(kind)
        close = get_close_matches(name, known, n=1)
        hint = f"; did you mean {close[0]!r}?" if close else ""
        raise UnknownIdError(f"unknown {kind} {name!r}{hint} (known: {', '.join(known)}, or 'module:Name')")
    return found


def load(kind: Kind, name: str) -> Callable[..., Any]:
    """Import what an id stands for. Raises UnknownIdError, or PluginError where the import fails."""
    dotted = target(kind, name)
    module_name, _, attribute = dotted.partition(":")
    try:
        found: Any = importlib.import_module(module_name)
        for part in attribute.split("."):
            found = getattr(found, part)
    except (Exception, SystemExit) as error:  # a plug-in's module runs as it is imported, and may raise anything
        reason = str(error) if isinstance(error, ImportError | AttributeError) else f"{type(error).__name__}: {error}"
        raise PluginError(f"{kind} {name!r}: cannot load {dotted}: {reason}") from error
    if not callable(found):
        raise PluginError(f"{kind} {name!r}: {dotted} is not a class or function")
    return found


def _plugins(kind: Kind) -> dict[str, EntryPoint]:
    """Entry points other packages installed; read anew so that an install in the same process is seen."""
    return {point.name: point for point in entry_points(group=_GROUPS[kind])}
