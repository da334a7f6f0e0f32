"""Stack files that nobody planned for: each ends in one SpecError, and nothing that a file merely names is called."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

import pytest

from envharness.components.stack_file import load_stack
from envharness.core.errors import PluginError, SpecError
from envharness.core.harness import EnvHarness
from envharness.core.registry import load
from envharness.core.spec import StackSpec
from environments import Corridor

TOY: dict[str, Any] = {"kind": "environment", "id": "toy24", "options": {"task": "easy-0000"}}


def stack(node: object) -> dict[str, Any]:
    return {"schema_version": 2, "stack": node}


def wrapped(component: str, state: object = None) -> dict[str, Any]:
    return stack({"kind": "wrapped", "component": component, "state": state or {}, "inner": TOY})


@pytest.mark.parametrize(
    ("data", "place"),
    [
        (stack({"kind": ["environment"]}), "stack.kind"),
        (stack({"kind": {}}), "stack.kind"),
        (stack({"kind": "environment", "id": "..:Up"}), "stack.id"),
        (stack({"kind": "environment", "id": "builtins:dict"}), "stack.id"),
        (stack({"kind": "environment", "id": "os:getcwd"}), "stack.id"),
        (stack({"kind": "environment", "id": "sys:exit"}), "stack.id"),
        (wrapped("os:getcwd"), "stack.component"),
        (wrapped("environments:Corridor"), "stack.component"),
        (wrapped("chain"), "stack.component"),
        (stack({"kind": "chained", "component": "stage", "segments": [TOY, TOY]}), "stack.component"),
        (stack({"kind": "chained", "component": "contract", "segments": [TOY, TOY]}), "stack.component"),
    ],
)
def test_what_is_no_stack_is_one_error_that_names_the_place(data: Any, place: str) -> None:
    with pytest.raises(SpecError) as caught:
        StackSpec.from_data(data).build()
    assert caught.value.place == place


def test_a_stack_file_cannot_call_what_it_names(tmp_path: Path) -> None:
    # Without the check, `os:mkdir` would be called with the options: a stack file would be a program.
    target, file = tmp_path / "made", tmp_path / "stack.json"
    file.write_text(json.dumps(stack({"kind": "environment", "id": "os:mkdir", "options": {"path": str(target)}})))
    with pytest.raises(SpecError, match="not an environment"):
        load_stack(file)
    assert not target.exists()


def test_the_place_in_a_deep_value_stays_readable() -> None:
    value: Any = object()
    for _ in range(200):
        value = [value]
    with pytest.raises(SpecError) as caught:
        StackSpec.environment("toy24", task=value)
    assert len(str(caught.value)) < 300


@pytest.mark.parametrize("line", ["raise SystemExit(3)", "raise RuntimeError('broken')", "1 / 0"])
def test_a_plug_in_that_fails_as_it_is_imported_is_a_plugin_error(
    line: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "broken_plugin.py").write_text(line)
    monkeypatch.setattr(sys, "path", [str(tmp_path), *sys.path])
    sys.modules.pop("broken_plugin", None)
    with pytest.raises(PluginError, match="broken_plugin"):
        load("environment", "broken_plugin:Env")


def test_a_component_cannot_be_defined_with_a_verdict_of_its_own() -> None:
    with pytest.raises(TypeError, match="no component has a say"):
        type("Lenient", (EnvHarness,), {"tag": "lenient", "evaluate": Corridor.evaluate})


class Fragile(EnvHarness):
    tag = "fragile"

    @classmethod
    def from_state(cls, *_: Any, **__: Any) -> Any:
        raise RuntimeError("not today")


class Counting(Corridor):
    closed: list[str]

    def _release(self) -> None:
        type(self).closed.append(self.task_id)


@pytest.mark.parametrize("kind", ["wrapped", "chained"])
def test_what_was_built_is_closed_whatever_the_component_raises(kind: str, monkeypatch: pytest.MonkeyPatch) -> None:
    module = sys.modules[__name__]
    monkeypatch.setitem(sys.modules, "hostile_stacks_under_test", module)
    Counting.closed = []
    environment: dict[str, Any] = {"kind": "environment", "id": "hostile_stacks_under_test:Counting", "options": {}}
    fragile: dict[str, Any] = {
        "kind": "wrapped",
        "component": "hostile_stacks_under_test:Fragile",
        "inner": environment,
    }
    node: dict[str, Any] = fragile if kind == "wrapped" else {"kind": "chained", "segments": [environment, fragile]}
    with pytest.raises(RuntimeError, match="not today"):
        StackSpec.from_data(stack(node)).build()
    assert len(Counting.closed) == (1 if kind == "wrapped" else 2)
