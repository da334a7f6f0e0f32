"""Turns what a user names on the command line (an id, or a stack file) into a stack."""

from __future__ import annotations

from pathlib import Path

from envharness.components.stack_file import read_stack
from envharness.core.errors import ConfigError
from envharness.core.spec import StackSpec
from envharness.core.types import JsonDict


def stack_of(name: str, task: str | None, options: JsonDict) -> StackSpec:
    """Return the stack in the file `name`, or the bare environment of that id. A file holds its own task, options."""
    if name.endswith(".json") or Path(name).is_file():
        if task is not None or options:
            raise ConfigError(f"{name} is a stack file, which holds its own task and options; leave them out")
        return read_stack(name)
    if task is not None:
        options = {**options, "task": task}
    return StackSpec.environment(name, **options)
