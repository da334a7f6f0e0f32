"""TextWorld's PDDL engine with one ALFWorld game in it: slow to load, quick to start again, one thread at a time."""

from __future__ import annotations

import importlib
import threading
import warnings
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from envharness.bridges.alfworld.games import Game
from envharness.bridges.alfworld.grammar import CachedGrammar
from envharness.core.errors import MissingDataError, TaskError

_TURNS = threading.RLock()
"""Held inside the engine: its parser and translator fail when two threads of one process are in them at once."""
IDLE_ENGINES = 16
"""Loaded games kept for the next episode, per process; about 9 MB each."""


@dataclass(frozen=True)
class Frame:
    """What the engine says after a command (or at the start)."""

    feedback: str
    admissible_commands: tuple[str, ...]
    """Sorted."""
    won: bool
    effective: bool
    """False where the command matched nothing, so that nothing happened."""


@dataclass(frozen=True)
class Fact:
    """One true proposition, with the names that players read, such as `inreceptacle(mug 1, desk 1)`."""

    name: str
    arguments: tuple[str, ...]


class GameEngine:
    """One engine. Take it with `lease`, give it back with `give_back`. Engines of one process take turns."""

    def __init__(self, game: Game) -> None:
        with _TURNS, warnings.catch_warnings():
            # Old idioms of these packages (invalid escapes, deprecated imports) are no concern of the caller's.
            warnings.simplefilter("ignore")
            try:
                pddl = importlib.import_module("textworld.envs.pddl")
                self._demangler = importlib.import_module("alfworld.agents.utils.misc").Demangler
                self._game_state = importlib.import_module("textworld.core").GameState
                self._env: Any = pddl.PddlEnv()
            except ImportError as error:
                raise MissingDataError(
                    f"alfworld: the game engine is not installed ({error}); run `scripts/install-alfworld`, "
                    "or `pip install 'envharness[alfworld]'`"
                ) from error
        self.load(game)

    def load(self, game: Game) -> None:
        """Put another game into this engine. Takes a second or two; raises TaskError where the file is no game."""
        with _TURNS:
            self._load(game)

    def _load(self, game: Game) -> None:
        self.digest = game.digest
        env = self._env
        try:
            # A mapping, because TextWorld leaves the file open when given a path.
            env.load(game.content())
        except (KeyError, ValueError, TypeError, AttributeError) as error:
            raise TaskError(f"alfworld: {game.task_id} is not a game that TextWorld can load: {error!r}") from error
        names = self._demangler(game_infos=env._entity_infos, shuffle=False)  # noqa: SLF001  PddlEnv's wrappers do so too
        for info in env._entity_infos.values():  # noqa: SLF001
            info.name = names.demangle_alfred_name(info.id)
        self._world: Any = env._pddl_state  # noqa: SLF001
        env._logic.grammar = CachedGrammar(env._logic.grammar, _changing_predicates(self._world.task))  # noqa: SLF001
        self._first_facts: frozenset[Any] = frozenset(self._world.facts)

    def restart(self) -> Frame:
        """Start the game from its beginning.

        PddlEnv.reset translates the PDDL problem again, for about a second. The translation is the same each time, so
        the engine is given the one made by `load`, and the facts are put back as they were.
        """
        with _TURNS:
            return self._restart()

    def _restart(self) -> Frame:
        env, world = self._env, self._world
        env.downward_lib.load_sas(world.sas.encode())
        current = frozenset(world.facts)
        world.remove_facts(current - self._first_facts)
        world.add_facts(self._first_facts - current)
        env.prev_state, env._last_action, env._moves = None, None, 0  # noqa: SLF001
        env.state = self._game_state()
        context: dict[str, Any] = {
            "state": world,
            "facts": list(world.facts),
            "variables": {},
            "mapping": {},
            "entity_infos": env._entity_infos,  # noqa: SLF001
        }
        env.state.feedback = env.state.raw = env._logic.grammar.derive("#intro#", context)  # noqa: SLF001
        env._gather_infos()  # noqa: SLF001
        return self._frame(effective=True)

    def step(self, command: str) -> Frame:
        """Send one command. It must be an admissible one to the letter, or nothing happens."""
        with _TURNS:
            effective = command in self._env.state["admissible_commands"]
            self._env.step(command)
            return self._frame(effective=effective)

    def facts(self, predicates: frozenset[str]) -> list[Fact]:
        """Return what is true now of these predicates (in lower case), sorted."""
        infos = self._env._entity_infos  # noqa: SLF001
        found = {
            Fact(fact.name, tuple(infos[variable.name].name.strip() for variable in fact.arguments))
            for fact in self._world.facts
            if fact.name in predicates
        }
        return sorted(found, key=lambda fact: (fact.name, fact.arguments))

    def _frame(self, *, effective: bool) -> Frame:
        state = self._env.state
        commands: Sequence[str] = state["admissible_commands"]
        return Frame(str(state.feedback).strip(), tuple(commands), bool(state["won"]), effective)


def _changing_predicates(task: Any) -> frozenset[str]:
    """Name the predicates that an action or an axiom of the problem can make true or false."""
    changed = {effect.literal.predicate for action in task.actions for effect in action.effects}
    return frozenset(name.lower() for name in changed | {axiom.name for axiom in task.axioms})


class _Engines:
    """The loaded engines of this process that nobody uses now."""

    def __init__(self) -> None:
        self.idle: list[GameEngine] = []


_engines = _Engines()


def lease(game: Game) -> GameEngine:
    """Return an engine with `game` in it, loaded before where possible."""
    with _TURNS:
        engine = next((engine for engine in reversed(_engines.idle) if engine.digest == game.digest), None)
        if engine is not None:
            _engines.idle.remove(engine)
            return engine
        if len(_engines.idle) < IDLE_ENGINES:
            return GameEngine(game)
        # Loading into the one idle longest, because memory of a dropped engine's library never comes back.
        engine = _engines.idle.pop(0)
        engine.load(game)
        return engine


def give_back(engine: GameEngine) -> None:
    """Keep the engine for the next episode of its game."""
    with _TURNS:
        _engines.idle.append(engine)
