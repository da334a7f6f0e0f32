"""A tool as a class: its JSON schema comes from the typed signature and the docstring of `invoke`."""

from __future__ import annotations

import inspect
import re
from collections.abc import Callable
from typing import Any, ClassVar, cast, get_type_hints

import orjson
from pydantic import BaseModel, ConfigDict, ValidationError, create_model
from pydantic.fields import FieldInfo

from envharness.core.types import EnvResponse, JsonDict, ToolSchema

_PROBLEMS_TOLD = 10
"""How many mistakes in one call are spelled out to whoever made it."""


class ToolCallError(ValueError):
    """A call whose arguments do not fit the tool. The text is written for the policy that made the call."""


class Tool:
    """Base of tools. A subclass sets `name` and defines `invoke(self, ...) -> EnvResponse` with typed parameters.

    Parameter types may be str, int, float, bool, Literal, Enum, list[...], Optional, and Pydantic models. Descriptions
    come from the docstring: its first paragraph for the tool, its `Args:` section for the parameters.
    """

    name: ClassVar[str]
    invoke: Callable[..., EnvResponse]

    def schema(self) -> ToolSchema:
        """Return the tool as a model provider expects it."""
        summary, parameters = _function_schema(self._function(), self.name)
        return ToolSchema(name=self.name, description=summary, parameters=orjson.loads(parameters))

    def call(self, kwargs: JsonDict) -> EnvResponse:
        """Check the arguments and invoke. Raises ToolCallError where they do not fit; nothing has happened then.

        Integers given as strings and the like are not converted: what the schema says is what is accepted.
        """
        try:
            # As JSON, because strict mode then still reads an enum's value, but never turns "3" into 3.
            parsed = self._parameters().model_validate_json(orjson.dumps(kwargs), strict=True)
        except TypeError as error:  # from the encoder: handles, or integers of more than 64 bits
            raise ToolCallError(f"{self.name}: the arguments are not JSON: {error}") from error
        except ValidationError as error:
            found = error.errors(include_url=False)
            problems = "; ".join(_explain(problem) for problem in found[:_PROBLEMS_TOLD])
            problems += f"; and {len(found) - _PROBLEMS_TOLD} more" if len(found) > _PROBLEMS_TOLD else ""
            expected = ", ".join(_signature(self._parameters()))
            raise ToolCallError(f"{self.name}({expected}): {problems}") from error
        return self.invoke(**{name: getattr(parsed, name) for name in type(parsed).model_fields})

    def _function(self) -> Callable[..., Any]:
        return type(self).invoke

    def _parameters(self) -> type[BaseModel]:
        return _parameter_model(self._function(), self.name)


_models: dict[Callable[..., Any], type[BaseModel]] = {}
_schemas: dict[Callable[..., Any], tuple[str, bytes]] = {}


def _function_schema(function: Callable[..., Any], name: str) -> tuple[str, bytes]:
    """Return (once a function: it takes a millisecond) the summary and, as JSON, the schema of the parameters."""
    if function not in _schemas:
        summary, _ = _parse_docstring(function)
        _schemas[function] = (summary, orjson.dumps(_tidy(_parameter_model(function, name).model_json_schema())))
    return _schemas[function]


def _parameter_model(function: Callable[..., Any], name: str) -> type[BaseModel]:
    """Build (once a function) the model that checks the arguments of a call."""
    if function in _models:
        return _models[function]
    _, descriptions = _parse_docstring(function)
    hints = get_type_hints(function, include_extras=True)
    fields: dict[str, Any] = {}
    for parameter in list(inspect.signature(function).parameters.values())[1:]:
        if parameter.kind in {parameter.VAR_POSITIONAL, parameter.VAR_KEYWORD} or parameter.name not in hints:
            raise TypeError(f"tool {name!r}: parameter {parameter.name!r} of invoke needs a type of its own")
        required = parameter.default is parameter.empty
        field = FieldInfo(default=... if required else parameter.default, description=descriptions.get(parameter.name))
        fields[parameter.name] = (hints[parameter.name], field)
    model = create_model(name, __config__=ConfigDict(extra="forbid", title=name), **fields)
    return _models.setdefault(function, model)


def _parse_docstring(function: Callable[..., Any]) -> tuple[str, dict[str, str]]:
    """Split a Google-style docstring into its first paragraph and its argument descriptions."""
    text = inspect.getdoc(function) or ""
    summary = " ".join(text.split("\n\n")[0].split())
    section = re.search(r"^Args:\n((?:[ \t]+.*\n?|\n)+)", text, re.MULTILINE)
    descriptions: dict[str, str] = {}
    current = ""
    for line in section[1].splitlines() if section else []:
        match = re.match(r"^ {4}(\w+)(?: \([^)]*\))?: (.*)$", line)
        if match:
            current = match[1]
            descriptions[current] = match[2].strip()
        elif current and line.strip():
            descriptions[current] += " " + line.strip()
    return summary, descriptions


def _tidy(schema: JsonDict) -> JsonDict:
    """Drop the titles that Pydantic adds: they only cost a model tokens."""

    def strip(node: Any) -> Any:
        if isinstance(node, list):
            return [strip(item) for item in cast("list[Any]", node)]
        if not isinstance(node, dict):
            return node
        fields = cast("dict[str, Any]", node)
        # A property may itself be called "title"; only a string there is Pydantic's.
        return {key: strip(value) for key, value in fields.items() if not (key == "title" and isinstance(value, str))}

    tidied = cast("JsonDict", strip(schema))
    tidied.setdefault("properties", {})
    return tidied


def _explain(problem: Any) -> str:
    where = ".".join(str(part) for part in problem["loc"])[:200]
    if problem["type"] == "missing":
        return f"missing argument {where!r}"
    if problem["type"] == "extra_forbidden":
        return f"unknown argument {where!r}"
    return f"argument {where!r}: {problem['msg']}"


def _signature(model: type[BaseModel]) -> list[str]:
    return [name if field.is_required() else f"{name}?" for name, field in model.model_fields.items()]
