"""The style sheet: readable in light and dark, by the contrast that WCAG 2.2 AA asks for."""

from __future__ import annotations

import re
from importlib.resources import files

import pytest

STYLE = files("envharness.report").joinpath("style.css").read_text(encoding="utf-8")
TEXT_PAIRS = [
    ("ink", "paper"),
    ("ink", "card"),
    ("ink", "sunk"),
    ("soft", "paper"),
    ("soft", "card"),
    ("soft", "sunk"),
    ("soft", "neutral-soft"),
    ("accent", "paper"),
    ("accent", "card"),
    ("accent", "accent-soft"),
    ("soft", "accent-soft"),
    ("good", "good-soft"),
    ("bad", "bad-soft"),
    ("bad", "paper"),
    ("warn", "warn-soft"),
    ("warn", "paper"),
    *((f"code-{kind}", "sunk") for kind in ("keyword", "string", "number", "name", "comment")),
]
GRAPHIC_PAIRS = [("other", "card"), ("accent", "accent-soft"), ("fresh", "card"), ("fresh", "accent-soft")]


def palettes() -> list[dict[str, str]]:
    """The colours of the light and of the dark theme."""
    blocks: list[str] = re.findall(r":root \{(.*?)\}", STYLE, re.DOTALL)
    return [dict(re.findall(r"--([\w-]+): (#[0-9a-f]{6})", block)) for block in blocks]


def luminance(colour: str) -> float:
    parts = [int(colour[start : start + 2], 16) / 255 for start in (1, 3, 5)]
    linear = [part / 12.92 if part <= 0.04045 else ((part + 0.055) / 1.055) ** 2.4 for part in parts]
    return 0.2126 * linear[0] + 0.7152 * linear[1] + 0.0722 * linear[2]


def contrast(first: str, second: str) -> float:
    darker, lighter = sorted([luminance(first), luminance(second)])
    return (lighter + 0.05) / (darker + 0.05)


@pytest.mark.parametrize("theme", [0, 1], ids=["light", "dark"])
def test_text_and_graphics_have_enough_contrast(theme: int) -> None:
    colours = palettes()[theme]
    poor = {
        (front, back): round(contrast(colours[front], colours[back]), 2)
        for pairs, least in ((TEXT_PAIRS, 4.5), (GRAPHIC_PAIRS, 3.0))
        for front, back in pairs
        if contrast(colours[front], colours[back]) < least
    }
    assert poor == {}


def test_both_themes_name_the_same_colours() -> None:
    light, dark = palettes()
    assert light.keys() == dark.keys()


def test_every_colour_used_is_named() -> None:
    used = set(re.findall(r"var\(--([\w-]+)\)", STYLE)) - {"sans", "mono", "part"}
    assert used <= palettes()[0].keys()
