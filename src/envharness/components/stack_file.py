"""Stacks in files: written whole or not at all, and read back to a live stack."""

from __future__ import annotations

import os
from pathlib import Path

from envharness.core.env import ActionableEnv
from envharness.core.errors import SpecError
from envharness.core.files import write_atomically
from envharness.core.spec import StackSpec


def save_stack(env: ActionableEnv | StackSpec, path: str | os.PathLike[str]) -> None:
    """Write a stack as JSON. The file appears complete or not at all. Raises StoreError where it cannot be written."""
    spec = env if isinstance(env, StackSpec) else env.spec
    write_atomically(Path(path), spec.to_json())


def read_stack(path: str | os.PathLike[str]) -> StackSpec:
    """Read a stack as data. Raises SpecError naming the file and the place in it."""
    try:
        text = Path(path).read_bytes()
    except OSError as error:
        raise SpecError(f"cannot read the stack file: {error.strerror}", place=str(path)) from error
    try:
        return StackSpec.from_json(text)
    except SpecError as error:
        raise type(error)(str(error), place=str(path)) from error


def load_stack(path: str | os.PathLike[str]) -> ActionableEnv:
    """Read a stack and make it live. Raises SpecError naming the file and the place in it."""
    spec = read_stack(path)
    try:
        return spec.build()
    except SpecError as error:
        raise type(error)(str(error), place=str(path)) from error
