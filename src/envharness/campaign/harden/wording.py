"""How the figures of a matrix are written, on the terminal and on the page. Nothing here is made safe to show yet."""

from __future__ import annotations

from envharness.campaign.harden.matrix import shift_of
from envharness.campaign.harden.records import HardenResult, Row, Tally
from envharness.core.messages import counted
from envharness.report.text import percent, words

SHIFTS_SHOWN = 2
SMALLEST_SHIFT = 0.05
"""Share of the rollouts; a reason that moved less is not named."""


def rate(tally: Tally) -> str:
    """Write a success rate, and over how many rollouts where some of them are not valid."""
    value = tally.success_rate
    if value is None:
        return "—"
    return percent(value) if tally.valid == tally.asked else f"{percent(value)} ({tally.valid} of {tally.asked})"


def span(interval: tuple[float, float]) -> str:
    """Write an interval of shares: `12 to 40`, in per cent."""
    return f"{interval[0] * 100:.0f} to {interval[1] * 100:.0f}"


def points(value: float | None) -> str:
    """Write a drop in percentage points, with its sign turned: `-35` is a loss; nothing where it is not known."""
    return "" if value is None else f"{-value * 100:+.0f}"


def change(row: Row) -> str:
    """Write how the rate changed, in percentage points with the interval: `-35 (-52 to -17)`."""
    if row.drop is None:
        return "—"
    low, high = row.drop_interval
    return f"{points(row.drop)} ({points(high)} to {points(low)})"


def steps(row: Row) -> str:
    """Write the mean number of turns before and after."""
    pair = (row.baseline.mean_steps, row.played.mean_steps)
    return " → ".join("—" if value is None else f"{value:.1f}" for value in pair)


def shift(row: Row) -> str:
    """Write which reasons of losses became more or less frequent, as shares of the rollouts."""
    moved = [entry for entry in shift_of(row) if abs(entry[2] - entry[1]) >= SMALLEST_SHIFT]
    return ", ".join(f"{words(name)} {percent(a)} → {percent(b)}" for name, a, b in moved[:SHIFTS_SHOWN]) or "—"


def where(row: Row) -> str:
    """Write in how many tasks the variant was played, and what became of it in the others."""
    return ", ".join(f"{count} {words(status)}" for status, count in row.cases.items())


def notes(result: HardenResult) -> list[str]:
    """Say what the matrix leaves out, a line each."""
    lines = [
        f"{kind}: {counted(count, 'further variant')} left out ('most' says how many of a kind are played)"
        for kind, count in result.left_out.items()
    ]
    if result.invalid:
        lines.append(
            f"{result.invalid} of {counted(result.rollouts, 'rollout')} are invalid: the machinery lost them, and "
            "rates are over the others"
        )
    lines += [f"not measured: {case.variant} of {case.task}: {case.detail}" for case in result.undecided]
    return lines


def headline(result: HardenResult) -> str:
    """Say in one line what the policy leans on."""
    leans = [row.variant.id for row in result.rows if row.finding == "leans"]
    return f"leans on: {', '.join(leans)}" if leans else "no variant is won measurably less often than the suite itself"
