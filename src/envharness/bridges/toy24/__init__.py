"""The 24 game in memory: combine four numbers into one that equals the target."""

from envharness.bridges.toy24.environment import Toy24

__all__ = ["Toy24"]
