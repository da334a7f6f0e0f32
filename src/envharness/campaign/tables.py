"""A comparison as tables of text, which the terminal and the page both show."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from math import comb

from envharness.campaign.compare import Comparison, DesignerFigures
from envharness.campaign.figures import Difference, Estimate
from envharness.campaign.measures import MEASURES
from envharness.campaign.variety import KINDS
from envharness.core.messages import counted
from envharness.report.numbers import Band
from envharness.report.text import percent
from envharness.rigger.objectives import SuccessBand
from envharness.rigger.records import Measurement

_UNITS = {measure.id: measure.unit for measure in MEASURES}
_TITLES = {measure.id: measure.title for measure in MEASURES}
_SMALL = 0.001


@dataclass(frozen=True)
class TextTable:
    """A table, and how to read it."""

    title: str
    heads: tuple[str, ...]
    rows: tuple[tuple[str, ...], ...]
    note: str = ""


def all_tables(comparison: Comparison) -> list[TextTable]:
    """Return the tables of a comparison, policy by policy."""
    tables = [crossing(comparison)] if len(comparison.policies) > 1 else []
    for policy in comparison.policies:
        makers: Iterable[Callable[[Comparison, str], TextTable]] = (shares, costs, tests, at_equal_spend, variety)
        tables += [maker(comparison, policy) for maker in makers]
    return tables


def headline(comparison: Comparison) -> str:
    """Say in a line what was compared."""
    parts = [
        comparison.environment,
        counted(len(comparison.tasks), "task"),
        counted(len(comparison.seeds), "seed"),
        f"at most {counted(comparison.budget, 'rollout')} a task",
        f"{counted(comparison.remeasure, 'fresh rollout')} a task after" if comparison.remeasure else "not re-measured",
        f"{counted(comparison.played, 'rollout')} played",
    ]
    return ", ".join(parts)


def warnings(comparison: Comparison) -> list[str]:
    """Return what forbids to read the figures as they stand."""
    return [
        f"{entry.designer} on {entry.policy}: {counted(entry.invalid, 'task')} undecided on the machinery's side, "
        "counted as outside the band; the same command tries them again"
        for entry in comparison.figures
        if entry.invalid
    ]


def crossing(comparison: Comparison) -> TextTable:
    """Tabulate designers by policies, the share in band."""
    measure = "in_band_fresh" if comparison.remeasure else "in_band_counted"
    rows = [
        (name, *(cell(entry, measure) for entry in comparison.figures if entry.designer == name))
        for name in comparison.designers
    ]
    return TextTable(
        f"Designers by policies: share of tasks {_TITLES[measure]}", ("designer", *comparison.policies), tuple(rows)
    )


def shares(comparison: Comparison, policy: str) -> TextTable:
    """Tabulate the shares in band."""
    names = ["in_band_before", "accepted", "in_band_counted"]
    if comparison.remeasure:
        names += ["in_band_fresh", "in_band_expected", "accepted_held"]
    return TextTable(
        f"Share of all tasks{_on(comparison, policy)}",
        ("designer", *(_TITLES[name] for name in names)),
        tuple((entry.designer, *(cell(entry, name) for name in names)) for entry in comparison.of(policy)),
        _ceilings(comparison),
    )


def costs(comparison: Comparison, policy: str) -> TextTable:
    """Tabulate what the designers spent."""
    names = ["rollouts", "rollouts_per_accept"] + (["rollouts_per_held"] if comparison.remeasure else [])
    rows = [
        (
            entry.designer,
            str(entry.accepted),
            f"{entry.rollouts:,}",
            *(cell(entry, name) for name in names),
            f"{entry.gave_up} ({entry.unspent:,} rollouts)",
        )
        for entry in comparison.of(policy)
    ]
    return TextTable(
        f"What it cost{_on(comparison, policy)}",
        ("designer", "accepted", "rollouts", *(_TITLES[name] for name in names), "gave up, unspent"),
        tuple(rows),
        "Rollouts paid for until the decisions, failed tasks' among them, fresh ones not. Each designer is charged the "
        "baselines, which were played once for all. Who gave up a task before its budget was used is charged what was "
        "used.",
    )


def tests(comparison: Comparison, policy: str) -> TextTable:
    """Tabulate the paired differences from the reference."""
    found = [entry for entry in comparison.differences if entry.policy == policy]
    several = len(comparison.designers) > 2  # noqa: PLR2004  more than one pair
    rows = [
        (
            entry.designer,
            f"{_TITLES[entry.measure]}{' per 100 rollouts' if _UNITS[entry.measure] == 'per 100 rollouts' else ''}",
            _difference(entry),
            _p(entry.p),
            *((_p(entry.p_adjusted),) if several else ()),
            f"{entry.higher} / {entry.lower}",
        )
        for entry in sorted(found, key=lambda entry: comparison.designers.index(entry.designer))
    ]
    heads = ("designer", "measure", "difference", "p", *(("adjusted p",) if several else ()), "tasks higher / lower")
    note = (
        "Designer minus reference, on the same tasks. p: sides of whole tasks swapped, two-sided. Adjusted: for the "
        "number of designers (Holm), measure by measure; not for the number of measures."
    )
    return TextTable(f"Against {comparison.reference}{_on(comparison, policy)}", heads, tuple(rows), note)


def at_equal_spend(comparison: Comparison, policy: str) -> TextTable:
    """Tabulate the share in band once no task may pay for more than so many rollouts."""
    rows: list[tuple[str, ...]] = []
    budgets: list[int] = []
    for entry in comparison.of(policy):
        budgets = [point.budget for point in entry.curve]
        rows.append((entry.designer, "counted", *(show(point.counted, "share") for point in entry.curve)))
        if comparison.remeasure:
            fresh = (point.fresh for point in entry.curve)
            rows.append((entry.designer, "re-measured", *(show(value, "share") if value else "-" for value in fresh)))
    return TextTable(
        f"At equal spend{_on(comparison, policy)}: share in band within so many rollouts a task",
        ("designer", "in band", *map(str, budgets)),
        tuple(rows),
        "The same runs, cut off earlier: a task counts from the rollout on that decided it.",
    )


def variety(comparison: Comparison, policy: str) -> TextTable:
    """Tabulate how different the accepted components are."""
    found = comparison.of(policy)
    size = found[0].variety.size
    heads = ["designer", "accepted"]
    for kind in KINDS:
        heads += [f"{kind}s", f"in {size}", "bits"]
    rows: list[tuple[str, ...]] = []
    for entry in found:
        row = [entry.designer, str(entry.variety.accepted)]
        for kind in entry.variety.kinds.values():
            row.append(str(kind.distinct))
            row += [_plain(value) for value in (kind.distinct_at_size, kind.entropy_at_size)]
        rows.append(tuple(row))
    note = (
        "Different kinds among all accepted components, and, since more components show more kinds, among "
        f"{size} of them chosen at random, with the entropy of those. Form: hook source without its literals, template "
        "and Stage. Behaviour: which hooks did what to which kinds of action. Flaw: what the component answers."
        if size
        else "Too few components were accepted to compare their variety at equal numbers."
    )
    return TextTable(f"Variety of the accepted components{_on(comparison, policy)}", tuple(heads), tuple(rows), note)


def cell(entry: DesignerFigures, measure: str) -> str:
    """Return a measure of a designer as text."""
    return show(entry.measures[measure], _UNITS[measure])


def show(value: Estimate, unit: str) -> str:
    """Write an estimate with its interval."""
    if value.value is None:
        return "-"
    if unit == "share":
        low, high = (100 * (bound or 0.0) for bound in (value.low, value.high))
        return f"{percent(value.value)} ({low:.0f} to {high:.0f})"
    if value.high is None:
        return f"{value.value:.1f} (from {value.low:.1f})" if value.low is not None else f"{value.value:.1f}"
    return f"{value.value:.1f} ({value.low or 0.0:.1f} to {value.high:.1f})"


def _difference(entry: Difference) -> str:
    value = entry.difference
    if value.value is None or value.low is None or value.high is None:
        return "-"
    if _UNITS[entry.measure] == "share":
        return f"{100 * value.value:+.0f} points ({100 * value.low:+.0f} to {100 * value.high:+.0f})"
    return f"{value.value:+.1f} ({value.low:+.1f} to {value.high:+.1f})"


def _plain(value: Estimate | None) -> str:
    return "-" if value is None else show(value, "number")


def _p(value: float) -> str:
    return f"{value:.3f}" if value >= _SMALL else "< 0.001"


def _on(comparison: Comparison, policy: str) -> str:
    return f" on {policy}" if len(comparison.policies) > 1 else ""


def _ceilings(comparison: Comparison) -> str:
    """Say what the shares can reach at most."""
    band, objective = Band(*comparison.band), SuccessBand(*comparison.band)
    text = (
        f"A task won exactly half the time shows in band in {percent(band.ceiling(comparison.rollouts))} of batches of "
        f"{comparison.rollouts} rollouts"
    )
    if not (fresh := comparison.remeasure):
        return f"{text}."
    expected = sum(
        comb(fresh, won) / 2**fresh * objective.probability(Measurement(asked=fresh, valid=fresh, successes=won))
        for won in range(fresh + 1)
    )
    return (
        f"{text}, in {percent(band.ceiling(fresh))} of {fresh}; its expected share (flat prior) is then "
        f"{percent(expected)}: no designer can show more."
    )
