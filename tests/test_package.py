"""The package as a whole: what it exports, how big its parts are, what importing it costs."""

from __future__ import annotations

import ast
import importlib
import importlib.metadata
import inspect
import subprocess
import sys
from pathlib import Path

import pytest
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

import envharness
from envharness.core import errors

SOURCE = Path(inspect.getfile(envharness)).parent
MODULES = sorted(SOURCE.rglob("*.py"))


def test_all_is_what_is_exported() -> None:
    assert envharness.__all__ == sorted(envharness.__all__)
    for name in envharness.__all__:
        assert getattr(envharness, name).__name__ == name
    with pytest.raises(AttributeError, match="no attribute 'nothing'"):
        _ = envharness.nothing  # pyright: ignore[reportAttributeAccessIssue, reportUnknownMemberType, reportUnknownVariableType]


@pytest.mark.parametrize("path", MODULES, ids=lambda path: str(path.relative_to(SOURCE)))
def test_modules_and_functions_stay_small_and_say_their_job(path: Path) -> None:
    text = path.read_text()
    assert text.count("\n") <= 400
    tree = ast.parse(text)
    assert ast.get_docstring(tree), "a module's first line says its one job"
    for node in ast.walk(tree):
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            assert (node.end_lineno or 0) - node.lineno < 60, node.name


def test_importing_the_package_is_light() -> None:
    """No third-party module, no file written, no network: the names are loaded when they are used."""
    script = (
        "import sys, envharness; print(sorted({m.split('.')[0] for m in sys.modules} & {'pydantic', 'rich', 'typer'}))"
    )
    run = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True)
    assert run.stdout.strip() == "[]"


def test_the_drawn_error_tree_is_the_real_one() -> None:
    drawn = {line.split("──")[1].split()[0] for line in (errors.__doc__ or "").splitlines() if "──" in line}
    real = {name for name, item in vars(errors).items() if inspect.isclass(item) and issubclass(item, Exception)}
    assert drawn | {"EnvHarnessError"} == real


def test_every_error_survives_the_way_home_from_a_worker() -> None:
    pickle = importlib.import_module("pickle")
    made = [
        errors.HookFault("filter_action", "hung"),
        errors.ReplayError(2, "blocked"),
        errors.SpecError("x", place="y"),
    ]
    for error in made:
        back = pickle.loads(pickle.dumps(error))
        assert (type(back), str(back)) == (type(error), str(error))


def test_imports_go_downward_only() -> None:
    run = subprocess.run([Path(sys.executable).parent / "lint-imports"], capture_output=True, text=True, check=False)
    assert run.returncode == 0, run.stdout


def test_the_core_install_is_at_most_twenty_packages() -> None:
    """The closure of the dependencies that hold here without any extra."""
    found, waiting = set[str](), ["envharness"]
    while waiting:
        name = canonicalize_name(waiting.pop())
        if name not in found:
            found.add(name)
            requirements = [Requirement(text) for text in importlib.metadata.requires(name) or []]
            waiting += [
                need.name for need in requirements if need.marker is None or need.marker.evaluate({"extra": ""})
            ]
    assert len(found) <= 20, sorted(found)
