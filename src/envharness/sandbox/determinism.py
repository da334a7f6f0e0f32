"""Takes the hidden inputs away from hook code: the clock stands still and every random stream follows the seed.

Changes the standard library of the process it runs in, and therefore runs in the zygote only. This serves
reproducible episodes; it is not a security layer.
"""

from __future__ import annotations

import datetime as dt
import random
from typing import Any, cast

CLOCK = dt.datetime(2024, 1, 1, 12, 0, 0, tzinfo=dt.UTC)
"""What `datetime.now()` says in every hook, always."""

_RealDate: type[dt.date] = dt.date
_RealDatetime: type[dt.datetime] = dt.datetime


class _AlsoReal(type):
    """Makes isinstance and issubclass answer for the class that the fixed one stands in for."""

    def __instancecheck__(cls, instance: object) -> bool:
        return isinstance(instance, cls.__mro__[1])

    def __subclasscheck__(cls, subclass: type) -> bool:
        return issubclass(subclass, cls.__mro__[1])


class FixedDatetime(_RealDatetime, metaclass=_AlsoReal):
    """`datetime.datetime` with a clock that stands still."""

    @classmethod
    def now(cls, tz: dt.tzinfo | None = None) -> FixedDatetime:
        """The fixed time, in `tz`, or naive UTC."""
        moment = CLOCK.replace(tzinfo=None) if tz is None else CLOCK.astimezone(tz)
        return cls.combine(moment.date(), moment.timetz())

    @classmethod
    def today(cls) -> FixedDatetime:
        """The fixed time, naive."""
        return cls.now()

    @classmethod
    def utcnow(cls) -> FixedDatetime:
        """The fixed time, naive UTC."""
        return cls.now()


class FixedDate(_RealDate, metaclass=_AlsoReal):
    """`datetime.date` with a clock that stands still."""

    @classmethod
    def today(cls) -> FixedDate:
        """The fixed day."""
        return cls(CLOCK.year, CLOCK.month, CLOCK.day)


class _Seeds:
    """Gives `random.Random()` without a seed one that follows from the session's seed and a count."""

    def __init__(self) -> None:
        self.session_seed = 0
        self.given = 0

    def next_seed(self) -> str:
        self.given += 1
        return f"{self.session_seed}/{self.given}"


_seeds = _Seeds()
_real_seed = random.Random.seed


def _seed(self: random.Random, a: Any = None, version: int = 2) -> None:
    _real_seed(self, _seeds.next_seed() if a is None else a, version)


def fix_clock_and_random() -> None:
    """Replace the clock of `datetime` and the default seeds of `random`, in this process, for good."""
    module = cast("Any", dt)
    module.datetime = FixedDatetime
    module.date = FixedDate
    library = cast("Any", random)
    library.Random.seed = _seed
    library.SystemRandom = random.Random


def start_random(seed: int) -> None:
    """Begin the session's random streams: the module's own, and the default seeds of instances."""
    _seeds.session_seed, _seeds.given = seed, 0
    random.seed(seed)
