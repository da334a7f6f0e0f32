"""What a run's model calls used, by role and task, read from the run database; and the budget it is held against."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import cast

from pydantic import BaseModel, ConfigDict, Field

from envharness.core.messages import counted
from envharness.core.trace import Episode
from envharness.core.types import JsonDict
from envharness.core.usage import Usage
from envharness.store.database import LIVE, RunStore

MODEL_CALL = "model_call"
"""The kind of record that keeps a call outside episodes: `role`, `task`, and `answer` with its `usage`."""
FAILED_CALL = f"{LIVE}failed_call"
"""The kind of record that keeps what calls used which brought nothing, and are asked again."""
CUT_EPISODES = f"{LIVE}cut_episodes"
"""The kind of record that keeps what policies used in episodes that an interruption cut, one a task."""
LEDGER = f"{LIVE}ledger"
"""The kind of record that shows the ledger to readers, one a role."""


class Budget(BaseModel):
    """What a run may spend on model calls. It is no part of the run's content: a larger one lets the run go on."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    tokens: int | None = Field(default=None, ge=1)
    """Prompt and completion tokens of all roles; None is no limit."""
    money: float | None = Field(default=None, gt=0)
    """In the unit of the models' `prices`; None is no limit. `rig` refuses it for a model that has none."""

    def exhausted_by(self, usage: Usage) -> str:
        """Return what is spent, such as `1200 of 1000 tokens`; empty while there is something left."""
        spent = usage.prompt + usage.completion
        if self.tokens is not None and spent >= self.tokens:
            return f"{spent} of {self.tokens} tokens"
        if self.money is not None and usage.cost >= self.money:
            return f"{usage.cost:.4g} of {self.money:g} money"
        return ""


@dataclass
class Ledger:
    """Usage by role and task."""

    total: Usage = field(default_factory=Usage)
    _entries: dict[tuple[str, str], Usage] = field(default_factory=dict[tuple[str, str], Usage])

    def add(self, role: str, task: str, usage: Usage) -> None:
        """Enter the usage of calls."""
        if usage.calls:
            self._entries[role, task] = self._entries.get((role, task), Usage()) + usage
            self.total += usage

    def add_episode(self, episode: Episode) -> None:
        """Enter what the policy used in an episode, and in attempts that came to nothing."""
        self.add("policy", episode.task, episode.usage + episode.wasted)

    def __iter__(self) -> Iterator[tuple[str, str, Usage]]:
        """Yield (role, task, usage), ordered by role and task."""
        for role, task in sorted(self._entries):
            yield role, task, self._entries[role, task]

    def by_role(self) -> dict[str, Usage]:
        """Return the usage of each role."""
        roles: dict[str, Usage] = {}
        for role, _, usage in self:
            roles[role] = roles.get(role, Usage()) + usage
        return roles


def describe_usage(usage: Usage) -> str:
    """Say in one line what calls used."""
    cost = f", cost {usage.cost:.4g}" if usage.cost else ""
    return f"{counted(usage.calls, 'model call')}, {usage.prompt} prompt and {usage.completion} completion tokens{cost}"


def read_ledger(store: RunStore) -> Ledger:
    """Return what the run has used so far, attempts that were lost and rollouts that were repeated included."""
    ledger = Ledger()
    for task, used in store.usages():
        ledger.add("policy", task, used)
    for _, body in store.records(MODEL_CALL):
        answer = body.get("answer")
        usage = answer.get("usage") if isinstance(answer, dict) else body.get("usage")
        if usage is not None:
            ledger.add(str(body["role"]), str(body["task"]), Usage.model_validate(usage))
    for kind in (FAILED_CALL, CUT_EPISODES):
        for _, body in store.records(kind):
            ledger.add(str(body["role"]), str(body["task"]), Usage.model_validate(body["usage"]))
    return ledger


def add_failed_call(store: RunStore, key: str, role: str, task: str, usage: Usage) -> None:
    """Keep what a call used that brought nothing, beside what earlier tries at the same call used."""
    _add(store, FAILED_CALL, key, role, task, usage)


def add_cut_episodes(store: RunStore, task: str, usage: Usage) -> None:
    """Keep what a policy used in episodes of a task that were cut, beside what earlier interruptions cut of it."""
    _add(store, CUT_EPISODES, task, "policy", task, usage)


def _add(store: RunStore, kind: str, key: str, role: str, task: str, usage: Usage) -> None:
    if not usage.calls:
        return
    former = store.get_record(kind, key)
    total = usage if former is None else usage + Usage.model_validate(former["usage"])
    store.put_record(kind, key, {"role": role, "task": task, "usage": total.model_dump(mode="json")})


def put_ledger(store: RunStore, ledger: Ledger) -> None:
    """Show the ledger to readers of the database, as one record a role: `{task: usage}`."""
    roles: dict[str, JsonDict] = {}
    for role, task, usage in ledger:
        roles.setdefault(role, {})[task] = cast("JsonDict", usage.model_dump(mode="json"))
    for role, tasks in roles.items():
        store.put_record(LEDGER, role, tasks)
