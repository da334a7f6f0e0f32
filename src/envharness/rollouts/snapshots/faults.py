"""Exceptions as JSON and back: one raised in a child says on the worker's side what it would have said there."""

from __future__ import annotations

import builtins
from typing import Any, cast

from pydantic import BaseModel, ConfigDict, JsonValue, ValidationError

from envharness.core import errors
from envharness.core.messages import one_line


class Fault(BaseModel):
    """One exception."""

    model_config = ConfigDict(frozen=True)

    name: str
    """Of its class."""
    base: str
    """The nearest class it descends from that both sides know: one of core.errors, or a built-in one."""
    text: str
    fields: dict[str, JsonValue] = {}
    """What an error of core.errors carries beside its text, such as the index of a Stage's action."""

    @classmethod
    def of(cls, error: BaseException) -> Fault:
        """Describe an exception."""
        known = next(kind for kind in type(error).__mro__ if _known(kind.__name__) is kind)
        text = f"{error.title}: {one_line(error)}" if isinstance(error, ValidationError) else str(error)
        fields = vars(error) if known.__module__ == errors.__name__ else {}
        plain: dict[str, JsonValue] = {}
        plain.update((key, value) for key, value in fields.items() if isinstance(value, str | int))
        return cls(name=type(error).__name__, base=known.__name__, text=text, fields=plain)

    def error(self) -> BaseException:
        """Return an exception with the name and the text of the first, which whoever caught that one catches, too."""
        kind = _known(self.base) or Exception
        if self.name != self.base or kind.__module__ != errors.__name__:
            # Many built-in ones make their text from their arguments; here it is there already.
            made = type(self.name, (kind,), {"__str__": _first_argument})
            kind = cast("type[BaseException]", made)
        found = kind.__new__(kind, self.text)
        found.args = (self.text,)
        vars(found).update(self.fields)
        return found


def _first_argument(error: BaseException) -> str:
    return str(error.args[0])


def _known(name: str) -> type[BaseException] | None:
    kind: Any = getattr(errors, name, None) or getattr(builtins, name, None)
    if not isinstance(kind, type) or not issubclass(kind, BaseException) or issubclass(kind, BaseExceptionGroup):
        return None  # a group cannot be made without its members
    return kind
