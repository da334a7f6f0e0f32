"""How a round was lost, as its designer reads it: predicted and observed failures side by side."""

from __future__ import annotations

from envharness.report.markup import Html, join, table, tag
from envharness.report.text import cut, words
from envharness.rigger.records import FailureLabel, FailureShift, Prediction, Round

NAME_LIMIT = 200
SENTENCE_LIMIT = 1_000


def failure_section(entry: Round) -> Html | None:
    """Show what was expected of a round and what came; nothing for a designer that does neither."""
    if entry.prediction is None and not entry.failures:
        return None
    return join(
        tag("h6", "Failures, predicted and observed"),
        tag("p", _expected(entry.prediction, entry), class_="prose") if entry.prediction else None,
        _table(entry) if entry.shifts else None,
        failure_list(entry.failures),
    )


def failure_list(labels: list[FailureLabel]) -> Html | None:
    """List lost rollouts with their label and sentence."""
    if not labels:
        return None
    items = [
        tag(
            "li",
            f"rollout {label.rollout}, {label.axis}: ",
            tag("code", cut(label.label, NAME_LIMIT)),
            f": {cut(label.sentence, SENTENCE_LIMIT)}",
        )
        for label in labels
    ]
    return tag("ul", items, class_="evidence")


def _expected(prediction: Prediction, entry: Round) -> str:
    rate = "no rate" if prediction.success_rate is None else f"a success rate of {prediction.success_rate:.2f}"
    measured = entry.measured.success_rate if entry.measured else None
    came = "nothing was measured" if measured is None else f"measured {measured:.2f}"
    return f"The designer expected {rate}; {came}. Its expectation takes no part in the verdict."


def _table(entry: Round) -> Html:
    heads = ("failure", "baseline", "this round", "predicted", "observed", "held")
    return table(heads, [_row(shift) for shift in entry.shifts])


def _row(shift: FailureShift) -> Html:
    held = "—" if shift.predicted is None else "yes" if shift.predicted == shift.observed else "no"
    return tag(
        "tr",
        tag("th", f"{shift.axis}: {words(cut(shift.label, NAME_LIMIT))}", scope="row"),
        [tag("td", str(value)) for value in (shift.before, shift.after, shift.predicted or "—", shift.observed, held)],
    )
