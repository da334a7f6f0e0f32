"""Reshape frozen agent environments at their interface.

Public names are loaded on first use, so that importing the package costs nothing.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

from envharness.core.version import VERSION

if TYPE_CHECKING:
    from envharness.components.chain import Chain
    from envharness.components.contract import Contract
    from envharness.components.stack_file import load_stack, save_stack
    from envharness.components.stage import Stage
    from envharness.core.env import ActionableEnv
    from envharness.core.errors import EnvHarnessError
    from envharness.core.harness import EnvHarness
    from envharness.core.spec import StackSpec, make
    from envharness.core.tool import Tool
    from envharness.core.types import (
        Action,
        Blocked,
        EnvResponse,
        EvaluationResult,
        Observation,
        ResetResponse,
    )
    from envharness.rigger.loop import rig
    from envharness.rollouts.episode import run_episode
    from envharness.testing.conformance import check_env

__version__ = VERSION

_HOMES = {
    "Action": "envharness.core.types",
    "ActionableEnv": "envharness.core.env",
    "Blocked": "envharness.core.types",
    "Chain": "envharness.components.chain",
    "Contract": "envharness.components.contract",
    "EnvHarness": "envharness.core.harness",
    "EnvHarnessError": "envharness.core.errors",
    "EnvResponse": "envharness.core.types",
    "EvaluationResult": "envharness.core.types",
    "Observation": "envharness.core.types",
    "ResetResponse": "envharness.core.types",
    "StackSpec": "envharness.core.spec",
    "Stage": "envharness.components.stage",
    "Tool": "envharness.core.tool",
    "check_env": "envharness.testing.conformance",
    "load_stack": "envharness.components.stack_file",
    "make": "envharness.core.spec",
    "rig": "envharness.rigger.loop",
    "run_episode": "envharness.rollouts.episode",
    "save_stack": "envharness.components.stack_file",
}

__all__ = [
    "Action",
    "ActionableEnv",
    "Blocked",
    "Chain",
    "Contract",
    "EnvHarness",
    "EnvHarnessError",
    "EnvResponse",
    "EvaluationResult",
    "Observation",
    "ResetResponse",
    "StackSpec",
    "Stage",
    "Tool",
    "check_env",
    "load_stack",
    "make",
    "rig",
    "run_episode",
    "save_stack",
]


def __getattr__(name: str) -> Any:
    if name not in _HOMES:
        raise AttributeError(f"module 'envharness' has no attribute {name!r}")
    value = getattr(importlib.import_module(_HOMES[name]), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return __all__
