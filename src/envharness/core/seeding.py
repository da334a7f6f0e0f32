"""Named random streams: one seed names every stream of a run, and the global RNG is never touched."""

from __future__ import annotations

import hashlib
import random


def derive_seed(root: int, *names: str | int) -> int:
    """Return the seed in [0, 2**63) of the stream called `names` under `root`.

    Streams of different names are independent; the same name always gives the same seed, on every platform.
    """
    # Length prefixes keep ("ab", "c") and ("a", "bc") apart.
    parts = [str(root), *(f"{type(name).__name__}:{name}" for name in names)]
    text = "".join(f"{len(part)}:{part}" for part in parts)
    return int.from_bytes(hashlib.sha256(text.encode()).digest()[:8]) >> 1


def stream(root: int, *names: str | int) -> random.Random:
    """Return a generator of the stream called `names` under `root`."""
    return random.Random(derive_seed(root, *names))
