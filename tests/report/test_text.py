from __future__ import annotations

import sys
import unicodedata

import pytest
from hypothesis import given
from hypothesis import strategies as st

from envharness.core.messages import counted
from envharness.report.text import UNSEEN, cut, duration, percent, visible, visible_line

ANYTHING = st.text(st.characters(codec=None, categories=None))


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("\x1b[31mred\x1b[0m", "␛[31mred␛[0m"),
        ("a\x00b\x07", "a␀b␇"),
        ("\x7f\x9b2J", "␡⟦U+009B⟧2J"),
        ("abc\u202edcb", "abc⟦U+202E⟧dcb"),
        ("pay\u200bpal\ufeff", "pay⟦U+200B⟧pal⟦U+FEFF⟧"),
        ("\U000e0041", "⟦U+E0041⟧"),
        ("\ud800", "⟦U+D800⟧"),
        ("line\u2028line", "line⟦U+2028⟧line"),
        ("home\rover", "home␍over"),
        ("two\n\tlines, Grüße, 日本, ✔\ufe0f", "two\n\tlines, Grüße, 日本, ✔\ufe0f"),
    ],
)
def test_visible_writes_out_what_would_not_be_seen(text: str, shown: str) -> None:
    assert visible(text) == shown


def test_every_control_and_format_character_is_written_out() -> None:
    acting = {"Cc", "Cf", "Cs", "Zl", "Zp"}
    missed = [
        hex(code)
        for code in range(sys.maxunicode + 1)
        if unicodedata.category(chr(code)) in acting and chr(code) not in "\n\t" and not UNSEEN.match(chr(code))
    ]
    assert missed == []


@given(ANYTHING)
def test_visible_text_can_be_stored_and_printed(text: str) -> None:
    shown = visible(text)
    assert not UNSEEN.search(shown)
    assert shown.encode().decode() == shown
    assert visible(shown) == shown


@given(ANYTHING)
def test_visible_line_is_one_line(text: str) -> None:
    assert len(visible_line(text).splitlines()) <= 1
    assert "\t" not in visible_line(text)


@given(st.text(), st.integers(1, 50))
def test_cut_keeps_both_ends_and_says_how_much_is_gone(text: str, limit: int) -> None:
    shown = cut(text, limit)
    if len(text) <= limit:
        assert shown == text
        return
    head, note, tail = shown.partition(f" ⋯ {len(text) - limit:,} characters cut ⋯ ")
    assert note
    assert text.startswith(head)
    assert text.endswith(tail)
    assert len(head) + len(tail) == limit


@pytest.mark.parametrize(
    ("seconds", "shown"),
    [
        (0.0, "0 ms"),
        (0.25, "250 ms"),
        (12.34, "12.3 s"),
        (72, "1 min 12 s"),
        (3599.6, "1 h 00 min"),
        (7380, "2 h 03 min"),
    ],
)
def test_duration(seconds: float, shown: str) -> None:
    assert duration(seconds) == shown


def test_numbers_for_a_reader() -> None:
    assert percent(0.875) == "88\N{NO-BREAK SPACE}%"
    assert [counted(number, "task") for number in (0, 1, 2000)] == ["0 tasks", "1 task", "2,000 tasks"]
