"""A model's server in a process of its own, for benchmarks of those who ask it."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Generator
from contextlib import contextmanager


@contextmanager
def model_server(*, latency: float = 0.0, text: str = "ok") -> Generator[str]:
    """Serve the same answer to everyone after `latency` seconds; gives the address."""
    command = [sys.executable, "-m", "envharness.testing.fault_server", "--latency", str(latency), "--text", text]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as server:
        try:
            assert server.stdout is not None
            yield server.stdout.readline().strip()
        finally:
            server.terminate()
