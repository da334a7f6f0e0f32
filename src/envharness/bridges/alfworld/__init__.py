"""ALFWorld: household text games, played by TextWorld's PDDL engine and judged by it."""

from envharness.bridges.alfworld.environment import Alfworld

__all__ = ["Alfworld"]
