"""Whether the failures of a round shifted against the baseline as its designer predicted."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from typing import Literal

from envharness.rigger.records import FailureAxis, FailureLabel, FailureShift, Prediction

Change = Literal["more", "fewer", "same"]
Kind = tuple[FailureAxis, str]


def compare_failures(
    prediction: Prediction | None, before: Sequence[FailureLabel], after: Sequence[FailureLabel]
) -> list[FailureShift]:
    """Count every kind of failure in the baseline and in a round, beside what was predicted of it.

    Both batches hold equally many rollouts, so counts compare. A kind is its axis and its label; the kinds predicted
    come first, in their order, then the others in alphabetical order.
    """
    expected: dict[Kind, Change] = {}
    for item in prediction.failures if prediction else ():
        expected.setdefault((item.axis, item.label), item.change)
    counts_before, counts_after = Counter(map(_kind, before)), Counter(map(_kind, after))
    others = sorted({*counts_before, *counts_after} - expected.keys())
    return [
        FailureShift(
            axis=kind[0],
            label=kind[1],
            before=counts_before[kind],
            after=counts_after[kind],
            predicted=expected.get(kind),
            observed=_change(counts_before[kind], counts_after[kind]),
        )
        for kind in (*expected, *others)
    ]


def _kind(label: FailureLabel) -> Kind:
    return (label.axis, label.label)


def _change(before: int, after: int) -> Change:
    if after == before:
        return "same"
    return "more" if after > before else "fewer"
