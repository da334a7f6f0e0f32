"""Checks hook source before an episode depends on it, in a confined process, never by parsing it here."""

from __future__ import annotations

from dataclasses import dataclass

from envharness.sandbox.limits import HookLimits
from envharness.sandbox.session import open_session


@dataclass(frozen=True)
class SourceReport:
    """What the source defines."""

    class_name: str
    """`_Contract` or `_Rules`."""
    overridden: frozenset[str]
    """The hooks it overrides; empty for a contract that changes nothing."""


def check_source(source: str, *, seed: int = 0, limits: HookLimits | None = None, unsafe: bool = False) -> SourceReport:
    """Compile and load `source` in a hook process of its own, and end it.

    `HookFault("load", reason)` with the line for source that does not become a contract; otherwise as `open_session`.
    """
    with open_session(source, seed=seed, limits=limits, unsafe=unsafe) as session:
        return SourceReport(session.class_name, session.overridden)
