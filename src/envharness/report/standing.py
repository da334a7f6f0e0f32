"""Where a run stands that has not come to its end: episodes so far by phase, the last thing lost, how to go on."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from envharness.report.markup import Html, table, tag
from envharness.report.text import cut, visible_line
from envharness.report.usage import Spending
from envharness.store.database import RunStore
from envharness.store.episode_rows import PhaseCount

HEADS = ("phase", "episodes", "won", "lost", "invalid")
NAME_LIMIT = 72
DETAIL_LIMIT = 500


@dataclass(frozen=True)
class Standing:
    """What an unfinished run holds."""

    phases: Sequence[PhaseCount]
    last_invalid: str
    """Task, cause and detail of the newest invalid episode; empty where there is none."""
    go_on: str
    """One sentence on how the run is continued."""

    def rows(self) -> list[tuple[str, ...]]:
        """Return the cells of `HEADS`, a row a phase."""
        return [
            (
                visible_line(phase.phase, NAME_LIMIT),
                *(f"{count:,}" for count in (phase.episodes, phase.won, phase.lost, phase.invalid)),
            )
            for phase in self.phases
        ]


def standing_of(store: RunStore, spending: Spending) -> Standing:
    """Read where the run stands, decoding one episode at most."""
    lost = store.newest_invalid()
    spent = spending.budget.exhausted_by(spending.total) if spending.budget is not None else ""
    again = f"the same `envharness {store.command}` command"
    return Standing(
        phases=store.phase_counts(),
        last_invalid=""
        if lost is None
        else f"{lost.task}: {lost.outcome.reason}: {cut(lost.outcome.detail, DETAIL_LIMIT)}",
        go_on=f"Its budget is spent ({spent}): raise 'budget' and give {again} to go on."
        if spent
        else f"Unless it is still at work, {again} goes on with it.",
    )


def standing_section(standing: Standing) -> Html:
    """Show where the run stands."""
    rows = [tag("tr", tag("th", row[0], scope="row"), [tag("td", cell) for cell in row[1:]]) for row in standing.rows()]
    return tag(
        "section",
        tag("h2", "So far"),
        table(HEADS, rows, caption="Episodes by phase, those of free checks included") if rows else None,
        None if rows else tag("p", "No episode has been played yet."),
        tag("p", f"The last invalid episode: {standing.last_invalid}") if standing.last_invalid else None,
        tag("p", standing.go_on),
    )
