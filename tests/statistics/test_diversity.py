from __future__ import annotations

from math import log2

import pytest
from hypothesis import given
from hypothesis import strategies as st

from envharness.statistics.diversity import distinct, entropy, subsamples

labels = st.lists(st.sampled_from("abcde"), min_size=1, max_size=20)


@given(labels)
def test_entropy_lies_between_one_kind_and_all_different(found: list[str]) -> None:
    assert 0.0 <= entropy(found) <= log2(distinct(found)) + 1e-9
    assert entropy(found * 3) == pytest.approx(entropy(found))
    assert entropy(["x"] * len(found)) == 0.0


def test_entropy_of_known_mixtures() -> None:
    assert entropy(["a", "b"]) == 1.0
    assert entropy(["a", "a", "b", "c"]) == pytest.approx(1.5)
    assert entropy([]) == 0.0


@given(labels, st.integers(0, 9))
def test_a_subsample_holds_no_label_more_often_than_there_are(found: list[str], seed: int) -> None:
    size = max(1, len(found) // 2)
    drawn = subsamples(found, size, 20, seed)
    assert all(len(sample) == size and all(sample.count(x) <= found.count(x) for x in sample) for sample in drawn)
    assert drawn == subsamples(found, size, 20, seed)


def test_more_of_the_same_is_not_more_diverse_at_equal_numbers() -> None:
    few, many = ["a", "b", "c", "d"], ["a", "b", "c", "d"] * 10
    at_four = [distinct(sample) for sample in subsamples(many, 4, 400, 1)]
    assert distinct(few) == 4.0
    assert sum(at_four) / len(at_four) < 3.5


@pytest.mark.parametrize("size", [0, 3])
def test_more_than_there_are_cannot_be_chosen(size: int) -> None:
    with pytest.raises(ValueError, match="of 2 labels"):
        subsamples(["a", "b"], size, 1, 0)
