"""What a run's model calls used, for a reader: a row a role, and the sum in a few words."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from envharness.core.usage import Usage
from envharness.report.markup import Html, table, tag
from envharness.report.text import visible_line
from envharness.rollouts.ledger import Budget

HEADS = ("role", "model", "calls", "prompt", "cached", "completion", "reasoning", "cost")
NAME_LIMIT = 80


@dataclass(frozen=True)
class Spending:
    """The usage of a run by role, all its starts included, and what it was held against."""

    by_role: Mapping[str, Usage]
    """Only roles that asked a model."""
    models: Mapping[str, str]
    """The name of a role's model; a role is absent where it is not known."""
    budget: Budget | None
    """That of the last start; None where none was noted."""

    @property
    def total(self) -> Usage:
        """The sum over all roles."""
        return sum(self.by_role.values(), Usage())

    def rows(self) -> list[tuple[str, ...]]:
        """Return the cells of `HEADS`, a row a role. `cached` is part of `prompt`, `reasoning` of `completion`."""
        return [
            (visible_line(role, NAME_LIMIT), visible_line(self.models.get(role, "-"), NAME_LIMIT), *_numbers(usage))
            for role, usage in self.by_role.items()
        ]

    def in_short(self) -> str:
        """Return tokens and money, such as `1,200 tokens, cost 0.5`; empty where no model was asked."""
        total = self.total
        if not total.calls:
            return ""
        return f"{total.prompt + total.completion:,} tokens" + (f", cost {total.cost:.4g}" if total.cost else "")

    def against_budget(self) -> str:
        """Return what is used of the budget, such as `1,200 of 5,000 tokens`; empty where there is none."""
        if self.budget is None:
            return ""
        parts: list[str] = []
        if self.budget.tokens is not None:
            parts.append(f"{self.total.prompt + self.total.completion:,} of {self.budget.tokens:,} tokens")
        if self.budget.money is not None:
            parts.append(f"{self.total.cost:.4g} of {self.budget.money:g} money")
        return ", ".join(parts)


def usage_section(spending: Spending) -> Html | None:
    """Tabulate the usage; nothing where no model was asked."""
    if not spending.by_role:
        return None
    rows = [tag("tr", tag("th", row[0], scope="row"), [tag("td", cell) for cell in row[1:]]) for row in spending.rows()]
    of_budget = spending.against_budget()
    return tag(
        "section",
        tag("h2", "What the models used"),
        table(HEADS, rows, caption="Model calls and their tokens, all starts of the run and lost attempts included"),
        tag(
            "p",
            "Cached tokens are part of the prompt's, reasoning tokens part of the completion's. Cost is in the unit of "
            "the configured prices; a dash where none came to anything.",
            f" Of the budget of the last start: {of_budget}." if of_budget else None,
            class_="legend",
        ),
    )


def _numbers(usage: Usage) -> tuple[str, ...]:
    counts = (usage.calls, usage.prompt, usage.cached, usage.completion, usage.reasoning)
    return (*(f"{count:,}" for count in counts), f"{usage.cost:.4g}" if usage.cost else "-")
