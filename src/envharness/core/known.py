"""Models made of values that are known to fit: where they were checked already, they are not checked again."""

from __future__ import annotations

from typing import Any, TypeVar

from pydantic import BaseModel

Model = TypeVar("Model", bound=BaseModel)

_set = object.__setattr__
_fields_set: dict[type[BaseModel], set[str]] = {}


def known(kind: type[Model], values: dict[str, Any]) -> Model:
    """Make a model of `values`, which must hold every field, by its name and of its type. Keeps `values` itself.

    This is what `model_construct` does, without its search for defaults and aliases, which costs more than to validate.
    All models of a kind share the set of the fields that were given, which are all there are.
    """
    given = _fields_set.get(kind)
    if given is None:
        given = _fields_set.setdefault(kind, set(kind.model_fields))
    model = kind.__new__(kind)
    _set(model, "__dict__", values)
    _set(model, "__pydantic_fields_set__", given)
    _set(model, "__pydantic_extra__", None)
    _set(model, "__pydantic_private__", None)
    return model
