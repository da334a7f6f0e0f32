from __future__ import annotations

import pytest

from envharness.campaign.outcomes import Component
from envharness.campaign.variety import LEAST, variety_of


def components(*forms: str) -> list[Component]:
    return [Component(form, "same", "flaw") for form in forms]


def test_variety_is_held_against_each_other_at_equal_numbers() -> None:
    """Ten of each of four kinds are not more various than two of each of them."""
    found = variety_of({"many": components(*"abcd" * 10), "few": components(*"abcd" * 2)})
    assert found["many"].size == found["few"].size == 4
    many, few = found["many"].kinds["form"], found["few"].kinds["form"]
    assert many.distinct == few.distinct == 4
    assert many.distinct_at_size
    assert few.distinct_at_size
    # Of 40 with ten of each: 4 * (1 - C(30, 4) / C(40, 4)); of 8 with two of each: 4 * (1 - C(6, 4) / C(8, 4)).
    assert many.distinct_at_size.value == pytest.approx(2.8, abs=0.06)
    assert few.distinct_at_size.value == pytest.approx(3.143, abs=0.06)
    same = found["many"].kinds["behaviour"]
    assert same.entropy_at_size
    assert (same.distinct, same.entropy_at_size.value) == (1, 0.0)


def test_too_few_components_compare_nothing_and_hinder_no_others() -> None:
    found = variety_of({"template": components(*"ab" * 10), "identity": components("a"), "none": []})
    assert found["template"].size == 10
    assert found["identity"].kinds["form"].distinct_at_size is None
    assert found["none"].kinds["form"].distinct == 0
    alone = variety_of({"identity": components(*"a" * (LEAST - 1))})
    assert (alone["identity"].size, alone["identity"].kinds["form"].entropy_at_size) == (0, None)
