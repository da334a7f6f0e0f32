"""The weaknesses a policy declares about itself, so that a report can say which of them a run found."""

from __future__ import annotations

import sys
from collections.abc import Mapping
from importlib import import_module
from typing import cast

from pydantic import JsonValue

from envharness.core.errors import PluginError, UnknownIdError
from envharness.core.registry import load


def declared_weaknesses(policy: JsonValue) -> dict[str, str]:
    """Return the weaknesses (name to description) of a policy given as `{id, options}`; empty where it declares none.

    They are the mapping `WEAKNESSES` beside the policy: in its module, or in a module `weaknesses` of its package.
    Those that the options turn off (strength 0) are left out. Only registered ids are looked up: a report never imports
    a `module:Class` that a run's file names.
    """
    fields = policy if isinstance(policy, dict) else {"id": policy}
    identifier, options = fields.get("id"), fields.get("options")
    if not isinstance(identifier, str) or ":" in identifier:
        return {}
    try:
        factory = load("policy", identifier)
    except (UnknownIdError, PluginError):
        return {}  # the policy is not installed where the report is written, which is no reason to write none
    strengths = options if isinstance(options, dict) else {}
    found = _beside(factory.__module__)
    return {name: text for name, text in found.items() if strengths.get(name) not in (0, 0.0, False)}


def _beside(module: str) -> Mapping[str, str]:
    own = getattr(sys.modules.get(module), "WEAKNESSES", None)
    if own is None:
        sibling = f"{module.rpartition('.')[0]}.weaknesses"
        try:
            own = getattr(import_module(sibling), "WEAKNESSES", None)
        except ModuleNotFoundError as error:
            if error.name != sibling:
                raise
    return cast("Mapping[str, str]", own) if isinstance(own, Mapping) else {}
