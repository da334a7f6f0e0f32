"""Where a task starts: the bare environment, or a stack that already holds accepted components."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Iterable, Sequence
from pathlib import Path

from envharness.components.stack_file import read_stack, save_stack
from envharness.core.errors import ConfigError
from envharness.core.spec import ChainedNode, EnvironmentNode, StackNode, StackSpec
from envharness.core.types import JsonDict
from envharness.rigger.config import RigConfig
from envharness.rigger.records import TaskResult

FOLDER = "stacks"
"""The folder in a run folder that accepted stacks are exported to, one file a task."""


def base_stacks(config: RigConfig, tasks: Sequence[str]) -> dict[str, StackSpec]:
    """Return the stack each task starts from. Raises ConfigError where a file does not belong to the run."""
    bare = {
        task: StackSpec.environment(config.environment.id, **{**config.environment.options, "task": task})
        for task in tasks
    }
    path = config.stack_path
    if path is None:
        return bare
    earlier = _read_all(path)
    for task, (stack, file) in earlier.items():
        bridge = _first_environment(stack.stack).id
        if bridge != config.environment.id:
            raise ConfigError(f"stacks: {file} is about {bridge!r}, this run about {config.environment.id!r}")
        if task in bare:
            bare[task] = stack
    if not earlier.keys() & bare.keys():
        raise ConfigError(f"stacks: {path} holds no stack of a task of this run (it has {', '.join(sorted(earlier))})")
    return bare


def export_stacks(results: Iterable[TaskResult], folder: Path) -> list[Path]:
    """Write each accepted stack to a file of its own, so that `load_stack` makes it live again. Returns the files."""
    written: list[Path] = []
    for result in results:
        if result.status == "accepted":
            path = folder / FOLDER / f"{file_name(result.task)}.json"
            save_stack(result.final_stack, path)
            written.append(path)
    return written


def file_name(task: str) -> str:
    """Return a task's id as a file name: readable, without separators."""
    return re.sub(r"[^\w.-]+", "__", task).lstrip(".") or "task"


def stacks_digest(path: Path) -> str:
    """Return a digest of the stacks in a file or folder: the same for equal stacks, under whatever file names."""
    stacks = sorted(read_stack(file).to_json() for file in _files(path))
    return hashlib.sha256(b"".join(stacks)).hexdigest()[:16]


def recorded_config(config: RigConfig) -> JsonDict:
    """Return what a run is held to: its configuration, with the content of the stacks in place of where they lie."""
    recorded: JsonDict = config.model_dump(mode="json")
    if config.stack_path is not None:
        # What the run builds on is what stands in the files, wherever they are.
        recorded["stacks"] = f"sha256:{stacks_digest(config.stack_path)}"
    return recorded


def _files(path: Path) -> list[Path]:
    files = sorted(path.glob("*.json")) if path.is_dir() else [path]
    if not files:
        raise ConfigError(f"stacks: no .json file in {path}")
    return files


def _read_all(path: Path) -> dict[str, tuple[StackSpec, Path]]:
    found: dict[str, tuple[StackSpec, Path]] = {}
    for file in _files(path):
        stack = read_stack(file)
        task = _first_environment(stack.stack).options.get("task")
        if not isinstance(task, str):
            raise ConfigError(f"stacks: {file} does not say which task it is about")
        if task in found:
            raise ConfigError(f"stacks: {found[task][1]} and {file} are both about task {task!r}")
        found[task] = (stack, file)
    return found


def _first_environment(node: StackNode) -> EnvironmentNode:
    while not isinstance(node, EnvironmentNode):
        node = node.segments[0] if isinstance(node, ChainedNode) else node.inner
    return node
