"""The report's figures as inline SVG, drawn by pure functions; colours are classes, set by the page's theme."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass

from envharness.report.markup import Html, join, tag
from envharness.report.numbers import Band
from envharness.report.text import percent
from envharness.rigger.records import Belief, Measurement
from envharness.rigger.summary import Share

BINS = 20
"""A bar a twentieth: wide enough to read, narrow enough for a hundred rollouts. Five rollouts fill every fourth."""


@dataclass(frozen=True)
class Bar:
    """Tasks whose success rate rounds to `rate`."""

    rate: float
    inside: int
    """Those in the band."""
    outside: int

    @property
    def tasks(self) -> int:
        """All of them."""
        return self.inside + self.outside


@dataclass(frozen=True)
class Distribution:
    """One panel: the success rates of all tasks at one point of the run."""

    title: str
    bars: tuple[Bar, ...]
    unmeasured: int
    """Tasks without a complete measurement: they are in no bar, and count as outside the band."""

    @property
    def peak(self) -> int:
        """Tasks in the highest bar."""
        return max((bar.tasks for bar in self.bars), default=0)

    @property
    def description(self) -> str:
        """The panel in words, for those who cannot see it."""
        parts = [f"{bar.tasks} at {percent(bar.rate)}" for bar in self.bars]
        if self.unmeasured:
            parts.append(f"{self.unmeasured} not measured")
        return f"{self.title}: tasks by success rate: {', '.join(parts) or 'none'}."


def distribution(title: str, measurements: Sequence[Measurement | None], band: Band) -> Distribution:
    """Sort measurements into bars. Whether a task is in band is decided by its exact rate, not by its bar."""
    inside: Counter[int] = Counter()
    outside: Counter[int] = Counter()
    unmeasured = 0
    for measurement in measurements:
        if measurement is None or not measurement.complete or measurement.success_rate is None:
            unmeasured += 1
            continue
        bar = round(measurement.success_rate * BINS)
        (inside if band.holds(measurement) else outside)[bar] += 1
    bars = tuple(Bar(bar / BINS, inside[bar], outside[bar]) for bar in sorted(inside | outside))
    return Distribution(title, bars, unmeasured)


_WIDTH, _HEIGHT = 360.0, 216.0
_LEFT, _RIGHT, _TOP, _BOTTOM = 18.0, 342.0, 26.0, 172.0
_BAR = 13.0


def _x(rate: float) -> float:
    return _LEFT + rate * (_RIGHT - _LEFT)


def distribution_panel(panel: Distribution, band: Band, peak: int, identifier: str) -> Html:
    """Draw one distribution. `peak` is the number of tasks that fills the height, the same in all panels compared."""
    scale = (_BOTTOM - _TOP) / max(peak, 1)
    ticks = [_tick(rate / 5) for rate in range(6)]
    return tag(
        "svg",
        tag("title", panel.title, id=f"{identifier}-title"),
        tag("desc", panel.description, id=f"{identifier}-desc"),
        _band_area(band),
        tag("line", class_="axis", x1=_LEFT - 8, x2=_RIGHT + 8, y1=_BOTTOM, y2=_BOTTOM),
        *ticks,
        *(_bar(bar, scale) for bar in panel.bars),
        tag("text", "success rate", class_="label", x=(_LEFT + _RIGHT) / 2, y=_HEIGHT - 6, text_anchor="middle"),
        class_="distribution",
        viewBox=f"0 0 {_WIDTH:g} {_HEIGHT:g}",
        role="img",
        aria_labelledby=f"{identifier}-title {identifier}-desc",
    )


def _band_area(band: Band) -> Html:
    left, right = _x(band.low), _x(band.high)
    pad = _BAR / 2 + 2  # the ends belong to the band, and so must the bars that stand on them
    return join(
        tag("rect", class_="band", x=left - pad, y=8, width=right - left + 2 * pad, height=_BOTTOM - 8, rx=3),
        tag("text", "target band", class_="label band-label", x=(left + right) / 2, y=20, text_anchor="middle"),
    )


def _tick(rate: float) -> Html:
    return join(
        tag("line", class_="axis", x1=_x(rate), x2=_x(rate), y1=_BOTTOM, y2=_BOTTOM + 4),
        tag("text", f"{rate * 100:.0f} %", class_="label", x=_x(rate), y=_BOTTOM + 18, text_anchor="middle"),
    )


def _bar(bar: Bar, scale: float) -> Html:
    """Draw the tasks in band at the bottom, those outside above them, and their number on top."""
    left = _x(bar.rate) - _BAR / 2
    inside, outside = bar.inside * scale, bar.outside * scale
    top = _BOTTOM - inside - outside
    return join(
        tag("rect", class_="inside", x=left, y=_BOTTOM - inside, width=_BAR, height=inside) if inside else None,
        tag("rect", class_="outside", x=left, y=top, width=_BAR, height=outside) if outside else None,
        tag("text", str(bar.tasks), class_="count", x=_x(bar.rate), y=top - 4, text_anchor="middle"),
    )


_STRIP_WIDTH, _STRIP_HEIGHT, _STRIP_PAD = 132.0, 18.0, 7.0


def _strip_x(rate: float) -> float:
    return _STRIP_PAD + rate * (_STRIP_WIDTH - 2 * _STRIP_PAD)


def rate_strip(before: Measurement, after: Measurement, fresh: Measurement | None, band: Band) -> Html:
    """Draw one task's way: a ring where it was, a disc where it is, a diamond where fresh rollouts put it."""
    middle = _STRIP_HEIGHT / 2
    start, end, audit = before.success_rate, after.success_rate, fresh.success_rate if fresh else None
    low, high = _strip_x(band.low), _strip_x(band.high)
    moved = start is not None and end is not None and start != end
    return tag(
        "svg",
        tag("rect", class_="band", x=low - 3, y=1, width=high - low + 6, height=_STRIP_HEIGHT - 2, rx=2),
        tag("line", class_="axis", x1=_strip_x(0), x2=_strip_x(1), y1=middle, y2=middle),
        tag("line", class_="way", x1=_strip_x(start or 0), x2=_strip_x(end or 0), y1=middle, y2=middle)
        if moved
        else None,
        None if end is None else tag("circle", class_="after", cx=_strip_x(end), cy=middle, r=4.5),
        None if start is None else tag("circle", class_="before", cx=_strip_x(start), cy=middle, r=4.5),
        None if audit is None else tag("path", class_="fresh", d=_diamond(_strip_x(audit), middle, 5)),
        class_="strip",
        viewBox=f"0 0 {_STRIP_WIDTH:g} {_STRIP_HEIGHT:g}",
        role="img",
        aria_label=strip_description(before, after, fresh),
    )


def strip_description(before: Measurement, after: Measurement, fresh: Measurement | None) -> str:
    """Say in words what `rate_strip` draws."""
    text = f"success rate {rate_text(before)} before, {rate_text(after)} after"
    return f"{text}, {rate_text(fresh)} by fresh rollouts" if fresh else text


def rate_text(measurement: Measurement | None) -> str:
    """Write a measured rate, `not measured` where there is none."""
    rate = measurement.success_rate if measurement else None
    return "not measured" if rate is None else percent(rate)


def belief_text(belief: Belief) -> str:
    """Write in one line what a rule of probabilities believed of a candidate."""
    return (
        f"{percent(belief.probability)} sure that it is on target: success rate {percent(belief.rate)} "
        f"({belief.low * 100:.0f} to {belief.high * 100:.0f}) by {belief.rollouts} rollouts"
    )


def _diamond(x: float, y: float, size: float) -> str:
    return f"M{x:g} {y - size:g}L{x + size:g} {y:g}L{x:g} {y + size:g}L{x - size:g} {y:g}Z"


def share_bar(share: Share) -> Html:
    """Draw a share of all tasks with its 95 % interval as a whisker."""
    width, height, middle = 160.0, 14.0, 7.0
    low, high = share.interval
    return tag(
        "svg",
        tag("rect", class_="track", x=0, y=2, width=width, height=height - 4, rx=3),
        tag("rect", class_="fill", x=0, y=2, width=width * share.value, height=height - 4, rx=3),
        tag("path", class_="whisker", d=f"M{width * low:.1f} {middle:g}H{width * high:.1f}"),
        class_="share",
        viewBox=f"0 0 {width:g} {height:g}",
        role="img",
        aria_label=f"{percent(share.value)}, 95 % interval {percent(low)} to {percent(high)}",
    )
