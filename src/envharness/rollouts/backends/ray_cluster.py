"""The Ray cluster that a driver joins or starts, and leaves as it found it. Ray itself is handed in."""

from __future__ import annotations

import os
import signal
import socket
import sys
import threading
from collections.abc import Generator
from contextlib import contextmanager
from typing import Any

from envharness.core.errors import ConfigError, MachineryError
from envharness.core.labels import current_label, end_part
from envharness.rollouts.backends.ray_guard import RayGuard
from envharness.rollouts.sizing import Count

OBJECT_STORE_BYTES = 100 << 20
"""Object store of a cluster that the engine starts for itself."""


class RayCluster:
    """The cluster that the driver has joined, and whether it is the engine's own."""

    def __init__(self, ray: Any, address: str | None, workers: Count) -> None:
        if address is not None:
            check_address(address)
        self.ray = ray
        self.label = current_label().new_part()
        self._joined = not self.ray.is_initialized()
        self._own = self._joined and address is None
        self.head = ""
        self._guard = RayGuard(self.label.variables()) if self._own else None
        try:
            if self._joined:
                with _own_surroundings(self.label.variables() if self._own else {}):
                    self._join(address, workers)
            self.head = self.ray.get_runtime_context().gcs_address
            self.look()
        except BaseException:
            self.leave()
            raise
        if not self._joined and address not in {None, self.head}:
            raise ConfigError(
                f"this process has joined the Ray cluster at {self.head} already, and can join none at {address}: "
                "call ray.shutdown() first, or give no address"
            )

    def processors(self) -> int:
        """Return how many there are on all nodes; at least 1."""
        return max(int(self.ray.cluster_resources().get("CPU", 1)), 1)

    def look(self) -> None:
        """Notice what Ray has started by now, so that none of it outlives this process."""
        if self._guard is not None:
            self._guard.learn()

    def answers(self) -> bool:
        """Whether the head takes connections. Asking Ray itself would wait for a minute, then end this process."""
        return _takes_connections(self.head)

    def leave(self) -> None:
        """Disconnect, and end what the engine started."""
        if self._joined and self.answers():  # without a head, Ray would wait for it, then abort this process
            with _own_surroundings({}):
                self.ray.shutdown()
        if self._guard is not None:
            end_part(self.label)
            self._guard.close()

    def _join(self, address: str | None, workers: Count) -> None:
        quiet = {"log_to_driver": False, "configure_logging": False, "logging_level": "ERROR"}
        if address is None:
            self.ray.init(
                address="local",
                num_cpus=None if workers == "auto" else workers,
                include_dashboard=False,
                object_store_memory=OBJECT_STORE_BYTES,
                **quiet,
            )
            return
        if not _takes_connections(address):
            raise MachineryError(f"no Ray cluster answers at {address!r}; give the head's host:port")
        try:
            self.ray.init(address=address, **quiet)
        except (ConnectionError, RuntimeError, ValueError) as error:
            raise MachineryError(f"the Ray cluster at {address!r} cannot be joined: {first_line(error)}") from error


def check_address(address: str) -> None:
    """Raise ConfigError where this cannot be the address of a cluster's head."""
    host, _, port = address.rpartition(":")
    if not host or "/" in address or not (port.isascii() and port.isdigit() and 0 < int(port[:6]) < 1 << 16):
        raise ConfigError(f"ray_address must be the head's host:port, such as 10.0.0.5:6379, not {address!r}")


@contextmanager
def _own_surroundings(variables: dict[str, str]) -> Generator[None]:
    """Give Ray `variables` for what it starts, and keep it from taking over SIGTERM and uncaught exceptions.

    It would report these to the head, and wait for one that is gone.
    """
    variables = {"RAY_USAGE_STATS_ENABLED": "0", "RAY_ACCEL_ENV_VAR_OVERRIDE_ON_ZERO": "0", **variables}
    former = {name: os.environ.get(name) for name in variables}
    excepthook = sys.excepthook
    handler = signal.getsignal(signal.SIGTERM) if threading.current_thread() is threading.main_thread() else None
    os.environ.update(variables)
    try:
        yield
    finally:
        for name, value in former.items():
            if value is None:
                os.environ.pop(name, None)
            else:
                os.environ[name] = value
        sys.excepthook = excepthook
        if handler is not None:
            signal.signal(signal.SIGTERM, handler)


def _takes_connections(address: str) -> bool:
    host, _, port = address.rpartition(":")
    try:
        with socket.create_connection((host.strip("[]"), int(port)), timeout=2.0):
            return True
    except (OSError, ValueError):
        return False


def first_line(error: BaseException) -> str:
    """Return the first line of what an error says, at most 300 characters."""
    return next((line.strip() for line in str(error).splitlines() if line.strip()), type(error).__name__)[:300]
