"""Observe: what one task looks like before anything is designed for it."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from envharness.core.errors import ConfigError
from envharness.core.spec import StackSpec
from envharness.core.trace import Episode
from envharness.core.types import Action, ToolSchema
from envharness.rigger.patterns import effective_actions, spell


@dataclass(frozen=True)
class TaskView:
    """What the environment says about itself, read once from the live base stack and without starting an episode."""

    task: str
    base_stack: StackSpec
    tools: tuple[ToolSchema, ...]
    state_schema: str
    reversible: bool
    reference: tuple[Action, ...] | None
    """Actions that win from reset, or None where the bridge has none."""
    stored_wins: tuple[tuple[Action, ...], ...] = ()
    """Wins of another run on this stack, perhaps under another seed; they are tried before they are believed."""
    volatile: tuple[str, ...] = ()
    """Keys of the state that may differ between identical runs."""


def view_task(task: str, base_stack: StackSpec) -> TaskView:
    """Build the base stack, read what it says, close it. Raises what building raises."""
    with base_stack.build() as env:
        reference = env.reference_solution()
        return TaskView(
            task=task,
            base_stack=base_stack,
            tools=tuple(env.tool_schemas()),
            state_schema=env.env_state_schema(),
            reversible=env.capabilities.reversible,
            reference=None if reference is None else tuple(reference),
            volatile=env.capabilities.volatile_state_keys,
        )


def require_reversible(views: Iterable[TaskView], *, insist: bool) -> None:
    """Refuse an environment whose reset cannot undo an episode, unless the user insists. Raises ConfigError."""
    for view in views:
        if not view.reversible and not insist:
            raise ConfigError(
                f"task {view.task!r}: the bridge says it is not reversible, so every rollout would leave its marks; "
                "rig a resettable copy, or set insist_irreversible: true"
            )


def policy_wins(episodes: Sequence[Episode]) -> tuple[tuple[Action, ...], ...]:
    """Return the effective actions of the rollouts won, shortest first, each list once."""
    found = {spell_all(actions): actions for actions in map(effective_actions, filter(_won, episodes)) if actions}
    return tuple(sorted(found.values(), key=lambda actions: (len(actions), spell_all(actions))))


def spell_all(actions: Sequence[Action]) -> str:
    """Return an action list as one line, for comparing and sorting."""
    return "; ".join(map(spell, actions))


def _won(episode: Episode) -> bool:
    return episode.success
