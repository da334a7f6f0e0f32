"""Prompts: text files that packages ship in their folder `prompts`, with places to fill in written as `$name`."""

from __future__ import annotations

from functools import cache
from importlib.resources import files
from string import Template


def fill_prompt(package: str, name: str, **values: str) -> str:
    """Return the text file `prompts/NAME.txt` of `package`, filled in. What a value holds is text and no place.

    Raises KeyError for a place that no value is given for.
    """
    return _template(package, name).substitute(values).strip()


@cache
def _template(package: str, name: str) -> Template:
    return Template(files(package).joinpath("prompts", f"{name}.txt").read_text(encoding="utf-8"))
