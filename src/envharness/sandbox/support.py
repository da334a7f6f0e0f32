"""Says which layers of confinement this system offers, by building them once around an empty process."""

from __future__ import annotations

import os
import sys
from dataclasses import dataclass

from envharness.core.errors import SandboxUnavailableError
from envharness.sandbox.guard import (
    LANDLOCK,
    LESSER_USER,
    NAMESPACES,
    NO_NEW_PRIVS,
    PARENT_DEATH,
    REQUIRED_LAYERS,
    RLIMITS,
    SECCOMP,
)
from envharness.sandbox.launcher import current_zygote
from envharness.sandbox.limits import HookLimits
from envharness.sandbox.session import HookSession

ALL_LAYERS = (RLIMITS, LESSER_USER, PARENT_DEATH, NO_NEW_PRIVS, LANDLOCK, SECCOMP, NAMESPACES)
"""Every kernel layer, in the order of application; the namespaces hold for the zygote and all its children."""


@dataclass(frozen=True)
class LayerSupport:
    """One layer: whether it holds here, whether hooks may run without it, and what it does or why it is missing."""

    name: str
    available: bool
    required: bool
    detail: str


@dataclass(frozen=True)
class SandboxSupport:
    """All layers of this system."""

    layers: tuple[LayerSupport, ...]

    @property
    def available(self) -> bool:
        """Whether hook code may run here without `unsafe`."""
        return all(layer.available for layer in self.layers if layer.required)

    @property
    def missing(self) -> tuple[LayerSupport, ...]:
        """The required layers that do not hold here."""
        return tuple(layer for layer in self.layers if layer.required and not layer.available)


def sandbox_support() -> SandboxSupport:
    """Try every layer in a child process and report. Costs one zygote start, if there is none yet.

    Raises `ZygoteError` when the zygote does not start; a layer that is missing is in the report, not an error.
    """
    if sys.platform != "linux" or not hasattr(os, "fork"):
        reason = f"Linux only; this is {sys.platform}"
        return SandboxSupport(tuple(LayerSupport(name, False, name in REQUIRED_LAYERS, reason) for name in ALL_LAYERS))
    zygote = current_zygote()
    applied = dict(zygote.namespaces["applied"])
    missing = dict(zygote.namespaces["missing"])
    limits = HookLimits()
    try:
        with HookSession(zygote.fork(limits, guarded=True), limits) as session:
            session.begin(confined=False)
            applied |= session.layers
            missing |= session.missing_layers
    except SandboxUnavailableError as error:
        missing |= dict.fromkeys(REQUIRED_LAYERS, str(error))
    return SandboxSupport(
        tuple(
            LayerSupport(name, name in applied, name in REQUIRED_LAYERS, applied.get(name) or missing.get(name, ""))
            for name in ALL_LAYERS
        )
    )


def require_sandbox() -> None:
    """Raise SandboxUnavailableError, naming what is missing, where hook code may not run here without `unsafe`."""
    missing = sandbox_support().missing
    if missing:
        reasons = "; ".join(f"{layer.name}: {layer.detail}" for layer in missing)
        raise SandboxUnavailableError(
            f"hook code cannot be confined on this system ({reasons}); "
            "--unsafe-hooks runs it unconfined, which is for source that you wrote yourself"
        )
