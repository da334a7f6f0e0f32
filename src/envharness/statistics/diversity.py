"""How different labelled things are, at equal numbers: who has more of them is not the more diverse for that alone."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from math import log2

import numpy as np


def entropy(labels: Sequence[str]) -> float:
    """Return the entropy of the labels in bits: 0 where all are equal or there are none, log2(n) where all differ."""
    counts = Counter(labels).values()
    return abs(sum(count / len(labels) * log2(count / len(labels)) for count in counts))


def distinct(labels: Sequence[str]) -> float:
    """Return how many different labels there are."""
    return float(len(set(labels)))


def subsamples(labels: Sequence[str], size: int, samples: int, seed: int) -> list[list[str]]:
    """Return random choices of `size` of the labels, without putting back. Raises ValueError where there are too few.

    A bootstrap would not do: putting back repeats labels, and so makes any collection look less diverse than it is.
    """
    if not 0 < size <= len(labels):
        raise ValueError(f"{size} of {len(labels)} labels: give 0 < size <= {len(labels)}")
    random = np.random.default_rng(seed)
    orders = random.random((samples, len(labels))).argsort(axis=1)[:, :size]
    return [[labels[int(place)] for place in order] for order in orders]
