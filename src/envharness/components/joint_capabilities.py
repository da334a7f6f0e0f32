"""The capabilities of a Chain out of those of its segments."""

from __future__ import annotations

from collections.abc import Sequence

from envharness.core.types import Capabilities


def joint_capabilities(parts: Sequence[Capabilities]) -> Capabilities:
    """Return what all segments can do. The middle of an episode is not saved, and no termination is taken back."""
    return Capabilities(
        state="episode_boundary",
        reversible=all(part.reversible for part in parts),
        resumable=False,
        fork_safe=all(part.fork_safe for part in parts),
        thread_safe=all(part.thread_safe for part in parts),
        isolated=all(part.isolated for part in parts),
        seeded=all(part.seeded for part in parts),
        step_limit_option=True,
        volatile_state_keys=tuple(sorted({key for part in parts for key in part.volatile_state_keys})),
    )
