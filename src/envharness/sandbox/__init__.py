"""Runs contract hooks, which a language model wrote, in confined processes. The names below are all there is to use.

Loaded on first use, so that the hook process, which imports from this package too, does not pull in the parent's side.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from envharness.sandbox.launcher import stop_zygote
    from envharness.sandbox.limits import HookLimits
    from envharness.sandbox.session import HookSession, open_session
    from envharness.sandbox.source_check import SourceReport, check_source
    from envharness.sandbox.support import LayerSupport, SandboxSupport, require_sandbox, sandbox_support

__all__ = [
    "HookLimits",
    "HookSession",
    "LayerSupport",
    "SandboxSupport",
    "SourceReport",
    "check_source",
    "open_session",
    "require_sandbox",
    "sandbox_support",
    "stop_zygote",
]

_HOMES = {
    "HookLimits": "limits",
    "HookSession": "session",
    "LayerSupport": "support",
    "SandboxSupport": "support",
    "SourceReport": "source_check",
    "check_source": "source_check",
    "open_session": "session",
    "require_sandbox": "support",
    "sandbox_support": "support",
    "stop_zygote": "launcher",
}


def __getattr__(name: str) -> Any:
    if name in _HOMES:
        return getattr(import_module(f"{__name__}.{_HOMES[name]}"), name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
