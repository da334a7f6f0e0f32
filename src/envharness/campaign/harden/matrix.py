"""The dependency matrix: each variant over the tasks it was played in, beside the same tasks as they are. Pure."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from typing import get_args

from envharness.campaign.harden.records import CaseResult, Finding, Row, Status, Tally, Variant
from envharness.statistics.intervals import difference, wilson


def row_of(variant: Variant, cases: Sequence[CaseResult]) -> Row:
    """Sum up one variant. Only tasks in which it was played, and that have a valid baseline, count in its rates."""
    counts = Counter(case.status for case in cases)
    measured = [case for case in cases if case.status == "played" and case.baseline.valid]
    baseline = sum((case.baseline for case in measured), Tally())
    played = sum((case.played for case in measured), Tally())
    before, after = baseline.success_rate, played.success_rate
    interval = difference((baseline.won, baseline.valid), (played.won, played.valid))
    return Row(
        variant=variant,
        cases={status: counts[status] for status in get_args(Status) if counts[status]},
        baseline=baseline,
        played=played,
        baseline_interval=wilson(baseline.won, baseline.valid),
        played_interval=wilson(played.won, played.valid),
        drop=None if before is None or after is None else before - after,
        drop_interval=interval,
        finding=_finding(interval) if measured else "not_played",
    )


def shift_of(row: Row) -> list[tuple[str, float, float]]:
    """Return, for each reason of a loss, its share of the rollouts before and after; those that moved most first."""
    names = {*row.baseline.reasons, *row.played.reasons}
    shares = [(name, _share(row.baseline, name), _share(row.played, name)) for name in sorted(names)]
    return sorted(shares, key=lambda entry: -abs(entry[2] - entry[1]))


def _share(tally: Tally, reason: str) -> float:
    return tally.reasons.get(reason, 0) / tally.valid if tally.valid else 0.0


def _finding(interval: tuple[float, float]) -> Finding:
    low, high = interval
    if low > 0:
        return "leans"
    return "gains" if high < 0 else "unclear"
