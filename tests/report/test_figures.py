from __future__ import annotations

import re
from xml.etree import ElementTree as ET

import pytest
from hypothesis import given
from hypothesis import strategies as st

from envharness.report.figures import Bar, distribution, distribution_panel, rate_strip, share_bar
from envharness.report.markup import Html
from envharness.report.numbers import Band
from envharness.rigger.summary import Share
from report.build_run import measured

BAND = Band(0.4, 0.6)
MEASUREMENTS = st.integers(1, 100).flatmap(lambda asked: st.builds(measured, st.integers(0, asked), st.just(asked)))


def parse(drawn: Html) -> ET.Element:
    return ET.fromstring(drawn.source)  # noqa: S314  our own drawing


def number(element: ET.Element, name: str) -> float:
    return float(element.attrib[name])


def test_the_exact_rate_decides_about_the_band_not_the_bar() -> None:
    """38 of 100 and 40 of 100 share a bar; only one of them is in the band."""
    panel = distribution("Before", [measured(38, 100), measured(40, 100), measured(5), None], BAND)
    assert panel.bars == (Bar(0.4, 1, 1), Bar(1.0, 0, 1))
    assert panel.unmeasured == 1
    assert panel.peak == 2
    assert "2 at 40" in panel.description
    assert "1 not measured" in panel.description


@given(st.lists(st.one_of(st.none(), MEASUREMENTS), max_size=40))
def test_no_task_is_lost_or_drawn_outside(measurements: list[object]) -> None:
    found = distribution("After", measurements, BAND)  # pyright: ignore[reportArgumentType]  hypothesis loses the type
    assert sum(bar.tasks for bar in found.bars) + found.unmeasured == len(measurements)
    drawn = parse(distribution_panel(found, BAND, max(found.peak, 3), "d"))
    _, _, width, height = map(float, drawn.attrib["viewBox"].split())
    for rect in drawn.iter("rect"):
        assert number(rect, "width") > 0
        assert number(rect, "x") >= 0
        assert number(rect, "x") + number(rect, "width") <= width
        assert number(rect, "y") >= 0
        assert number(rect, "y") + number(rect, "height") <= height


def test_bars_in_the_band_stand_in_the_drawn_band() -> None:
    found = distribution("After", [measured(2), measured(3), measured(5), measured(5)], BAND)
    drawn = parse(distribution_panel(found, BAND, found.peak, "d"))
    band = next(rect for rect in drawn.iter("rect") if rect.attrib["class"] == "band")
    left, right = number(band, "x"), number(band, "x") + number(band, "width")
    inside = [rect for rect in drawn.iter("rect") if rect.attrib["class"] == "inside"]
    outside = [rect for rect in drawn.iter("rect") if rect.attrib["class"] == "outside"]
    assert [left <= number(rect, "x") and number(rect, "x") + 13 <= right for rect in inside] == [True, True]
    assert [number(rect, "x") > right for rect in outside] == [True]
    assert number(outside[0], "height") == pytest.approx(2 * number(inside[0], "height"))


def test_panels_say_in_words_what_they_draw() -> None:
    drawn = parse(distribution_panel(distribution("Before", [measured(5)], BAND), BAND, 1, "d7"))
    ids = {element.attrib["id"] for element in drawn.iter() if "id" in element.attrib}
    assert ids == set(drawn.attrib["aria-labelledby"].split()) == {"d7-title", "d7-desc"}


def test_strip_shows_where_a_task_was_and_is() -> None:
    drawn = parse(rate_strip(measured(5), measured(2), measured(33, 100), BAND))
    ring = next(element for element in drawn.iter("circle") if element.attrib["class"] == "before")
    disc = next(element for element in drawn.iter("circle") if element.attrib["class"] == "after")
    assert number(ring, "cx") > number(disc, "cx")
    assert drawn.find("path") is not None
    assert (
        re.sub(r"\s", " ", drawn.attrib["aria-label"])
        == "success rate 100 % before, 40 % after, 33 % by fresh rollouts"
    )
    unmeasured = rate_strip(measured(0, 5, valid=0), measured(0, 5, valid=0), None, BAND)
    assert "not measured before" in unmeasured.source
    assert "circle" not in unmeasured.source


@given(st.integers(0, 50), st.integers(0, 50))
def test_share_bar_fits(count: int, others: int) -> None:
    drawn = parse(share_bar(Share(count, count + others)))
    assert all(0 <= number(rect, "width") <= 160 for rect in drawn.iter("rect"))
