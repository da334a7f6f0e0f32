from __future__ import annotations

import html
import re

from hypothesis import given
from hypothesis import strategies as st

from envharness.core.types import Action
from envharness.report.markup import Html, escape, join, tag
from envharness.report.source import LINE_LIMIT, SOURCE_LIMIT, call, call_text, python_source
from envharness.report.text import visible

ANYTHING = st.text(st.characters(codec=None, categories=None))


def seen(markup: Html) -> str:
    """What a browser would show of it."""
    return html.unescape(re.sub(r"<[^>]*>", "", markup.source))


@given(ANYTHING)
def test_escaped_text_shows_as_itself(text: str) -> None:
    markup = escape(text)
    assert seen(markup) == visible(text)
    assert set(re.findall(r"<[^>]*>", markup.source)) <= {'<b class="unseen">', "</b>"}


@given(ANYTHING)
def test_an_attribute_cannot_be_left(text: str) -> None:
    match = re.fullmatch(r'<a title="([^"<>]*)">x</a>', tag("a", "x", title=text).source)
    assert match
    assert html.unescape(match[1]) == visible(text)


def test_a_string_is_never_markup() -> None:
    assert tag("p", "<b>", Html("<i>"), None, ["&", Html("</i>")]).source == "<p>&lt;b&gt;<i>&amp;</i></p>"
    assert join("<", ["<"]).source == "&lt;&lt;"


def test_attributes_take_their_html_form() -> None:
    built = tag(
        "input", class_="a", aria_label="b", for_="c", checked=True, hidden=False, title=None, x=1.5, viewBox="0 0"
    )
    assert built.source == '<input class="a" aria-label="b" for="c" checked x="1.5" viewBox="0 0">'


@given(ANYTHING)
def test_source_shows_as_itself_and_holds_only_spans(source: str) -> None:
    markup = python_source(source)
    tags = set(re.findall(r"<(/?\w+)", markup.source))
    assert tags <= {"pre", "/pre", "code", "/code", "span", "/span"}
    assert "script" not in tags
    assert (
        seen(markup).strip() == visible(source.replace("\r\n", "\n")).strip()
        or "\r" in source
        or len(source) > LINE_LIMIT
    )


def test_source_is_highlighted_and_its_size_is_bounded() -> None:
    assert '<span class="k">def</span>' in python_source("def f(): pass").source
    huge = python_source("x = '" + "a" * 1_000_000 + "'")
    assert "characters cut" in huge.source
    assert len(huge.source) < 5 * SOURCE_LIMIT


def test_a_call_is_written_as_a_call() -> None:
    action = Action(name="combine", kwargs={"left": 10**30, "text": 'a"\x1b', "list": [1, None]})
    assert call_text(action) == f'combine(left={10**30}, text="a\\"\\u001b", list=[1, null])'
    assert "characters cut" in call_text(Action(name="say", kwargs={"text": "x" * 1000}))
    assert "no action named" in call(None).source
