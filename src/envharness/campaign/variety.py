"""How different the components are that a designer got accepted, at equal numbers."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

import numpy as np
from pydantic import BaseModel

from envharness.campaign.figures import LEVEL, Estimate
from envharness.campaign.outcomes import Component
from envharness.core.seeding import derive_seed
from envharness.statistics.diversity import distinct, entropy, subsamples
from envharness.statistics.paired import percentile_interval

KINDS: dict[str, Callable[[Component], str]] = {
    "form": lambda component: component.form,
    "behaviour": lambda component: component.behaviour,
    "flaw": lambda component: component.flaw,
}
"""By what components are told apart."""
LEAST = 8
"""A designer with fewer accepted components shows too little to be held against the others."""
SAMPLES = 2000


class KindVariety(BaseModel):
    """How many kinds there are among the accepted components."""

    distinct: int
    """Among all of them: more accepts show more kinds, so this compares nothing."""
    distinct_at_size: Estimate | None
    """Among `size` of them, chosen at random. None where too few were accepted."""
    entropy_at_size: Estimate | None
    """In bits, of the same choices."""


class Variety(BaseModel):
    """The variety of one designer's accepted components, all seeds together."""

    accepted: int
    size: int
    """Half of the fewest accepts of the designers compared; 0 where none has enough."""
    kinds: dict[str, KindVariety]


def variety_of(found: Mapping[str, Sequence[Component]]) -> dict[str, Variety]:
    """Return the variety of each designer's components."""
    enough = [len(components) for components in found.values() if len(components) >= LEAST]
    size = min(enough) // 2 if enough else 0
    return {
        designer: Variety(
            accepted=len(components),
            size=size,
            kinds={kind: _kind_variety(designer, kind, components, size) for kind in KINDS},
        )
        for designer, components in found.items()
    }


def _kind_variety(designer: str, kind: str, components: Sequence[Component], size: int) -> KindVariety:
    labels = [KINDS[kind](component) for component in components]
    if not size or len(labels) < LEAST:
        return KindVariety(distinct=len(set(labels)), distinct_at_size=None, entropy_at_size=None)
    chosen = subsamples(labels, size, SAMPLES, derive_seed(0, "compare", "variety", designer, kind))
    return KindVariety(
        distinct=len(set(labels)),
        distinct_at_size=_over([distinct(sample) for sample in chosen]),
        entropy_at_size=_over([entropy(sample) for sample in chosen]),
    )


def _over(values: Sequence[float]) -> Estimate:
    """Return the mean over the choices and the interval that holds 95 % of them."""
    low, high = percentile_interval(np.asarray(values, float), LEVEL) or (0.0, 0.0)
    return Estimate(value=sum(values) / len(values), low=low, high=high)
