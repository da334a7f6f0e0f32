"""Reads a YAML configuration and validates it; an error names file, line, key and what is allowed."""

from __future__ import annotations

from pathlib import Path
from typing import Any, TypeVar, cast

import yaml
from pydantic import BaseModel, ValidationError
from pydantic_core import ErrorDetails

from envharness.core.errors import ConfigError
from envharness.core.messages import one_line

Model = TypeVar("Model", bound=BaseModel)
Lines = dict[tuple[str | int, ...], int]
MAX_BYTES = 1_000_000
MAX_NODES = 100_000
"""Keys and values with every alias written out; more is no configuration, but an attack on memory."""
MAX_SHOWN = 100
"""Characters of a wrong value that an error shows."""


def read_config(path: Path, model: type[Model], overrides: dict[str, Any] | None = None) -> Model:
    """Read `path` as `model`. `overrides` (dotted keys, as `engine.workers`) win over the file; None is no override."""
    data, lines = _read_yaml(path)
    for dotted, value in (overrides or {}).items():
        if value is not None:
            _override(data, dotted.split("."), value)
    return validate_config(data, model, str(path), lines)


def validate_config(data: dict[str, Any], model: type[Model], source: str, lines: Lines | None = None) -> Model:
    """Validate decoded data as `model`. Raises ConfigError with one line for the first problem."""
    try:
        return model.model_validate(data)
    except ValidationError as error:
        if missing := [_key(problem["loc"]) for problem in error.errors() if problem["type"] == "missing"]:
            raise ConfigError(f"{source}: required keys are missing: {', '.join(missing)}") from error
        problem = error.errors()[0]
        more = f" (and {error.error_count() - 1} more)" if error.error_count() > 1 else ""
        place = _place(problem["loc"], lines or {})
        raise ConfigError(f"{source}{place}: {_explain(problem, model)}{more}") from error


def _read_yaml(path: Path) -> tuple[dict[str, Any], Lines]:
    try:
        text = path.read_text(encoding="utf-8")
    except OSError as error:
        raise ConfigError(f"{path}: cannot read the configuration: {error.strerror}") from error
    except UnicodeDecodeError as error:
        raise ConfigError(f"{path}: not UTF-8 text") from error
    if len(text) > MAX_BYTES:
        raise ConfigError(f"{path}: larger than {MAX_BYTES} characters; this is not a configuration")
    try:
        root = yaml.compose(text, Loader=_Loader)
        lines = _lines_of(root, path)
        data = yaml.load(text, Loader=_Loader)  # noqa: S506  a SafeLoader that reads keys as text
    except yaml.MarkedYAMLError as error:
        line = error.problem_mark.line + 1 if error.problem_mark else "?"
        raise ConfigError(f"{path}, line {line}: not YAML: {error.problem}") from error
    except yaml.YAMLError as error:
        raise ConfigError(f"{path}: not YAML: {one_line(error)}") from error
    except ValueError as error:  # a date or a number that Python cannot hold
        raise ConfigError(f"{path}: a value cannot be read: {error}") from error
    except RecursionError as error:
        raise ConfigError(f"{path}: nested too deep, or an alias that holds itself") from error
    if data is None:
        data = {}
    if not isinstance(data, dict):
        raise ConfigError(f"{path}: expected keys and values, found a {type(data).__name__}")
    return cast("dict[str, Any]", data), lines


class _Loader(yaml.SafeLoader):
    """Reads keys as they are written: `null`, `on` and `5` are names here."""

    def construct_mapping(self, node: yaml.MappingNode, deep: bool = False) -> dict[Any, Any]:
        self.flatten_mapping(node)
        for key, _ in node.value:
            if isinstance(key, yaml.ScalarNode):
                key.tag = "tag:yaml.org,2002:str"
        return super().construct_mapping(node, deep)


def _lines_of(root: yaml.Node | None, path: Path) -> Lines:
    """Return the line of every key; a key given twice is an error, because YAML would silently keep the last."""
    lines: Lines = {}
    visited = 0

    def visit(node: yaml.Node | None, place: tuple[str | int, ...]) -> None:
        nonlocal visited
        visited += 1
        if visited > MAX_NODES:
            raise ConfigError(f"{path}: more than {MAX_NODES} values, aliases written out; this is not a configuration")
        if isinstance(node, yaml.MappingNode):
            for key, value in node.value:
                name = str(key.value)
                if (*place, name) in lines:
                    raise ConfigError(f"{path}, line {key.start_mark.line + 1}: key {name!r} is given twice")
                lines[*place, name] = key.start_mark.line + 1
                visit(value, (*place, name))
        elif isinstance(node, yaml.SequenceNode):
            for index, item in enumerate(node.value):
                lines[*place, index] = item.start_mark.line + 1
                visit(item, (*place, index))
        elif node is not None and _is_no_number(node):
            where = f"{path}, line {node.start_mark.line + 1}, key {'.'.join(map(str, place))!r}"
            raise ConfigError(f"{where}: {node.value} is no number that a run can record; give a finite one")

    visit(root, ())
    return lines


def _is_no_number(node: yaml.Node) -> bool:
    return node.tag == "tag:yaml.org,2002:float" and node.value.lower().lstrip("+-") in {".inf", ".nan"}


def _override(data: dict[str, Any], keys: list[str], value: Any) -> None:
    for key in keys[:-1]:
        inner = data.setdefault(key, {})
        if not isinstance(inner, dict):
            raise ConfigError(f"{'.'.join(keys)}: {key!r} holds {inner!r}, so nothing can be set below it")
        data = cast("dict[str, Any]", inner)
    data[keys[-1]] = value


def _key(loc: tuple[int | str, ...]) -> str:
    return ".".join(str(part) for part in loc)


def _place(loc: tuple[int | str, ...], lines: Lines) -> str:
    key = _key(loc)
    for length in range(len(loc), 0, -1):
        if line := lines.get(loc[:length]):
            return f", line {line}, key {key!r}"
    return f", key {key!r}" if key else ""


def _explain(problem: ErrorDetails, model: type[BaseModel]) -> str:
    if problem["type"] == "extra_forbidden":
        known = _fields_at(model, problem["loc"][:-1])
        allowed = f" (allowed: {', '.join(known)})" if known else ""
        return f"unknown key{allowed}"
    message = problem["msg"].removeprefix("Value error, ")
    if not problem["loc"]:  # about several keys, which the message names
        return message
    found = repr(problem["input"])
    return f"{message}, found {found if len(found) <= MAX_SHOWN else found[:MAX_SHOWN] + '...'}"


def _fields_at(model: type[BaseModel], loc: tuple[int | str, ...]) -> list[str]:
    """Return the field names of the model at `loc`, or nothing where it is not a plain nested model."""
    current: Any = model
    for part in loc:
        field = getattr(current, "model_fields", {}).get(part)
        current = field.annotation if field else None
    return sorted(getattr(current, "model_fields", {}))
