"""Write a game's texts from its grammar, parsing each piece of it once instead of at every step.

TextWorld parses the same few grammar strings and queries again for every command of every step, which is nearly all of
a step's time. The evaluator here walks the symbols that TextWorld's own parser made, in the same order and by the same
rules, and remembers what cannot change: parsed pieces, and queries over facts that no action of the game touches.
"""

from __future__ import annotations

import importlib
from collections.abc import Iterator, Mapping
from types import CodeType
from typing import Any, NamedTuple

from envharness.core.errors import TaskError


class Context(NamedTuple):
    """What a text may refer to: the game's state and the bindings made so far."""

    state: Any
    """TextWorld's State, which answers queries."""
    entities: Mapping[str, Any]
    """Variable name → TextWorld's EntityInfo, whose `name` is what players read."""
    variables: dict[str, Any]
    """Placeholder name → EntityInfo."""
    mapping: dict[Any, Any]
    """Placeholder → Variable."""


class CachedGrammar:
    """Stands in for TextWorld's ContextSensitiveGrammar in one game. Texts are the same to the byte."""

    def __init__(self, grammar: Any, changing: frozenset[str]) -> None:
        """Take over the rules of `grammar`; `changing` names the predicates that actions or axioms can change."""
        self._textgen = importlib.import_module("textworld.envs.pddl.textgen")
        self._parse_query = importlib.import_module("textworld.logic").Rule.parse_conjunctive_query
        self._rules: Mapping[str, list[Any]] = grammar._rules  # noqa: SLF001  TextWorld has no public way to them
        self._changing = changing
        self._symbols: dict[str, list[Any]] = {}
        self._queries: dict[str, Any] = {}
        self._expressions: dict[str, CodeType] = {}
        self._settled: dict[tuple[Any, ...], int] = {}

    def derive(self, start: str, context: Mapping[str, Any]) -> str:
        """Return the text of `start`; `context` is the mapping that TextWorld hands to its own grammar."""
        if start not in self._symbols:
            self._symbols[start] = self._textgen._parse_and_convert(start, rule_name="symbols")  # noqa: SLF001  as above
        bindings = Context(context["state"], context["entity_infos"], context["variables"], context["mapping"])
        return "".join(self._render(symbol, bindings) for symbol in self._symbols[start])

    def _render(self, symbol: Any, context: Context) -> str:
        textgen = self._textgen
        if isinstance(symbol, textgen.NonterminalSymbol):
            return self._expand(str(symbol), context)
        if isinstance(symbol, textgen.EvalSymbol):
            return str(self._evaluate(symbol.expression, context))
        if isinstance(symbol, textgen.ConditionalSymbol):
            return "".join(self._items(symbol, context))
        if isinstance(symbol, textgen.ListSymbol):
            return self._enumerate(list(self._items(symbol.symbol, context)), context)
        return str(symbol)

    def _expand(self, name: str, context: Context) -> str:
        """Write the first rule called `name` whose condition holds."""
        for rule in self._rules.get(name, ()):
            if not rule.condition or next(self._matches(rule.condition, context), None) is not None:
                return "".join(self._render(symbol, context) for symbol in rule.rhs)
        raise TaskError(f"alfworld: the game's grammar has no rule for {name!r} that applies")

    def _items(self, symbol: Any, context: Context) -> Iterator[str]:
        """Write a conditional's expression once for every way its query holds."""
        if not isinstance(symbol, self._textgen.ConditionalSymbol):
            yield self._render(symbol, context)
            return
        for match in list(self._matches(symbol.given, context)) if symbol.given else [context]:
            yield self._render(symbol.expression, match)

    def _enumerate(self, items: list[str], context: Context) -> str:
        if not items:
            return self._expand("list_empty", context)
        if len(items) == 1:
            return items[0]
        separator = self._expand("list_separator", context)
        return separator.join(items[:-1]) + self._expand("list_last_separator", context) + items[-1]

    def _matches(self, query: str, context: Context) -> Iterator[Context]:
        """Yield the bindings under which `query` holds, in TextWorld's (sorted) order."""
        if query not in self._queries:
            self._queries[query] = self._parse_query(query)
        rule = self._queries[query]
        bound = tuple(context.mapping.get(placeholder) for placeholder in rule.placeholders)
        if None not in bound and self._is_constant(rule):
            # Everything is bound and no fact it asks for can change: only whether it holds is left to know.
            key = (query, *bound)
            if key not in self._settled:
                self._settled[key] = sum(1 for _ in context.state.all_assignments(rule, context.mapping))
            for _ in range(self._settled[key]):
                yield context
            return
        for found in context.state.all_assignments(rule, context.mapping):
            # `found` is changed in place when the search goes on, so copies are handed out.
            named = {placeholder.name: context.entities[variable.name] for placeholder, variable in found.items()}
            yield context._replace(variables={**context.variables, **named}, mapping={**context.mapping, **found})

    def _is_constant(self, rule: Any) -> bool:
        return all(condition.name.removeprefix("not_") not in self._changing for condition in rule.preconditions)

    def _evaluate(self, expression: str, context: Context) -> object:
        if expression not in self._expressions:
            self._expressions[expression] = compile(expression, "<grammar>", "eval")
        names = {"context": context, **context.variables}
        # A grammar is Python by TextWorld's design; games.py loads no file that the user has not vouched for.
        return eval(self._expressions[expression], self._textgen.__dict__, names)  # noqa: S307  see above
