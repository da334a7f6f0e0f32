"""The dependency matrix: each variant over the tasks it was played in, beside the same tasks as they are. Pure."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from typing import get_args

from envharness.campaign.harden.records import CaseResult, Finding, Pairs, Row, Status, Tally, Variant
from envharness.statistics.intervals import paired_difference, wilson
from envharness.statistics.paired import holm, mcnemar_test

SURE = 0.05
"""Adjusted p-value below which a change is not put down to chance."""


def matrix(variants: Sequence[tuple[Variant, Sequence[CaseResult]]]) -> list[Row]:
    """Sum up each variant from its cases, and judge all of them together: the more are tried, the more flukes."""
    rows = [_row(variant, cases) for variant, cases in variants]
    tested = [row for row in rows if row.pairs.count]
    adjusted = holm([mcnemar_test(row.pairs.gained, row.pairs.lost) for row in tested])
    known = {row.variant.id: p_value for row, p_value in zip(tested, adjusted, strict=True)}
    return [
        row.model_copy(update={"p_value": p_value, "finding": _finding(row.pairs, p_value)})
        for row in rows
        for p_value in [known.get(row.variant.id)]
    ]


def _row(variant: Variant, cases: Sequence[CaseResult]) -> Row:
    """Sum up one variant. Only tasks in which it was played count in its rates."""
    counts = Counter(case.status for case in cases)
    measured = [case for case in cases if case.status == "played"]
    baseline = sum((case.baseline for case in measured), Tally())
    played = sum((case.played for case in measured), Tally())
    pairs = sum((case.pairs for case in measured), Pairs())
    unaffected = sum((case.baseline for case in cases if case.status == "unaffected"), Tally())
    return Row(
        variant=variant,
        cases={status: counts[status] for status in get_args(Status) if counts[status]},
        baseline=baseline,
        played=played,
        suite=played + unaffected,
        baseline_interval=wilson(baseline.won, baseline.valid),
        played_interval=wilson(played.won, played.valid),
        pairs=pairs,
        drop=(pairs.lost - pairs.gained) / pairs.count if pairs.count else None,
        drop_interval=paired_difference(pairs.both, pairs.lost, pairs.gained, pairs.neither),
        p_value=None,
        finding="not_played",
    )


def shift_of(row: Row) -> list[tuple[str, float, float]]:
    """Return, for each reason of a loss, its share of the rollouts before and after; those that moved most first."""
    names = {*row.baseline.reasons, *row.played.reasons}
    shares = [(name, _share(row.baseline, name), _share(row.played, name)) for name in sorted(names)]
    return sorted(shares, key=lambda entry: -abs(entry[2] - entry[1]))


def _share(tally: Tally, reason: str) -> float:
    return tally.reasons.get(reason, 0) / tally.valid if tally.valid else 0.0


def _finding(pairs: Pairs, p_value: float | None) -> Finding:
    if p_value is None:
        return "not_played"
    if p_value >= SURE:
        return "unclear"
    return "leans" if pairs.lost > pairs.gained else "gains"
