"""What anyone knows about a house: where things are kept, and what cleans, heats and cools them."""

from __future__ import annotations

_KEPT: tuple[tuple[str, str], ...] = (
    (
        "apple bread egg lettuce potato tomato",
        "countertop diningtable fridge sinkbasin microwave garbagecan sidetable",
    ),
    ("bowl cup mug plate winebottle", "countertop diningtable sinkbasin shelf cabinet coffeemachine fridge microwave"),
    ("butterknife fork knife ladle spatula spoon", "countertop diningtable sinkbasin drawer"),
    ("kettle pan pot", "stoveburner countertop diningtable cabinet"),
    ("peppershaker saltshaker", "countertop diningtable shelf cabinet drawer"),
    ("dishsponge", "sinkbasin countertop diningtable cart cabinet drawer"),
    ("candle soapbar soapbottle spraybottle", "countertop toilet bathtubbasin sinkbasin shelf cart cabinet garbagecan"),
    ("cloth handtowel towel", "bathtubbasin handtowelholder towelholder countertop sinkbasin cabinet drawer"),
    ("tissuebox toiletpaper toiletpaperroll", "toilet toiletpaperhanger countertop shelf sidetable cabinet drawer"),
    ("pillow teddybear", "bed sofa armchair"),
    ("laptop", "bed desk sofa coffeetable diningtable"),
    ("newspaper remotecontrol", "sofa coffeetable armchair sidetable tvstand dresser ottoman shelf drawer"),
    ("desklamp floorlamp", "desk sidetable dresser shelf"),
    (
        "alarmclock book box cd cellphone creditcard keychain pen pencil statue vase watch",
        "desk sidetable shelf dresser coffeetable diningtable bed sofa armchair tvstand drawer safe",
    ),
)
_PLACES: dict[str, list[str]] = {item: [*places.split()] for items, places in _KEPT for item in items.split()}
_BROAD = ["countertop", "diningtable", "desk", "sidetable", "coffeetable", "dresser"]
_SURFACES = [*_BROAD, "shelf", "bed", "sofa", "tvstand", "ottoman", "toilet", "cart"]

APPLIANCES = {"clean": "sinkbasin", "heat": "microwave", "cool": "fridge"}
"""Verb → the kind of receptacle that does it."""


def likelihood(item: str, kind: str) -> float:
    """Return how likely an item is on or in a kind of receptacle, from 0 (unheard of) to 1 (the first guess)."""
    places = likely_places(item)
    if kind not in places:
        return 0.1 if kind in _SURFACES else 0.0
    return 1.0 - 0.8 * places.index(kind) / len(places)


def likely_places(item: str) -> list[str]:
    """Return the kinds of receptacle where an item is kept, the first guess first."""
    return _PLACES.get(item, _SURFACES)


def can_be_put_down_on(kind: str) -> bool:
    """Whether nearly anything can be left there."""
    return kind in _BROAD
