from __future__ import annotations

import subprocess
import sys
import textwrap
from pathlib import Path

import pytest

from envharness.core.errors import PluginError, UnknownIdError
from envharness.core.registry import load, names, register, target


def test_an_unknown_id_names_what_is_known_and_what_is_near() -> None:
    with pytest.raises(
        UnknownIdError, match=r"unknown environment 'toy42'; did you mean 'toy24'\? \(known: alfworld, toy24"
    ):
        load("environment", "toy42")


def test_a_dotted_name_is_an_id() -> None:
    assert load("environment", "collections:OrderedDict").__name__ == "OrderedDict"


@pytest.mark.parametrize(
    "dotted", ["no_such_module:X", "collections:NoSuch", "collections:abc.NoSuch", "math:pi", ":x"]
)
def test_what_cannot_be_loaded_is_a_plugin_error(dotted: str) -> None:
    with pytest.raises(PluginError):
        load("environment", dotted)


def test_an_id_cannot_be_taken_twice() -> None:
    register("policy", "test-registry-twice", "collections:OrderedDict")
    register("policy", "test-registry-twice", "collections:OrderedDict")
    with pytest.raises(PluginError, match="registered already"):
        register("policy", "test-registry-twice", "collections:Counter")
    with pytest.raises(PluginError, match="registered already"):
        register("environment", "toy24", "collections:Counter")


def test_a_broken_plugin_breaks_nothing_else(tmp_path: Path) -> None:
    for name, value in {"good": "collections:OrderedDict", "broken": "no_such_module:X"}.items():
        info = tmp_path / f"{name}_plugin-1.dist-info"
        info.mkdir()
        (info / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {name}-plugin\nVersion: 1\n")
        (info / "entry_points.txt").write_text(f"[envharness.bridges]\n{name} = {value}\n")
    script = textwrap.dedent("""
        from envharness.core.registry import load, names
        from envharness.core.errors import PluginError
        assert {"good", "broken", "toy24"} <= set(names("environment"))
        assert load("environment", "good").__name__ == "OrderedDict"
        try:
            load("environment", "broken")
        except PluginError as error:
            print(error)
    """)
    run = subprocess.run(
        [sys.executable, "-c", script], env={"PYTHONPATH": str(tmp_path)}, capture_output=True, text=True, check=True
    )
    assert "environment 'broken': cannot load no_such_module:X" in run.stdout


def test_listing_names_imports_nothing() -> None:
    script = "import sys; from envharness.core.registry import names; names('environment'); print('textworld' in sys.modules)"
    run = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True)
    assert run.stdout.strip() == "False"


@pytest.mark.parametrize("kind", ["environment", "component", "policy", "designer"])
def test_every_built_in_id_resolves(kind: str) -> None:
    for name in names(kind):  # pyright: ignore[reportArgumentType]
        if target(kind, name).startswith("envharness."):  # pyright: ignore[reportArgumentType]
            assert callable(load(kind, name))  # pyright: ignore[reportArgumentType]
