"""What a hook may use: time, CPU, memory and the size of what it says."""

from __future__ import annotations

from dataclasses import dataclass, fields

from envharness.core.errors import ConfigError

MEBIBYTE = 1024 * 1024


@dataclass(frozen=True)
class HookLimits:
    """Limits of one hook session. Every value must be positive, else `ConfigError`."""

    call_seconds: float = 2.0
    """Wall-clock seconds for one exchange, both directions together."""
    load_seconds: float = 5.0
    """Wall-clock seconds to compile the source and build the contract."""
    cpu_seconds: int = 30
    """CPU seconds for the whole episode, all calls together; the kernel kills the process at the end of them."""
    memory_bytes: int = 512 * MEBIBYTE
    """Address space of the hook process. About 40 MiB of it are the interpreter's own."""
    frame_bytes: int = 4 * MEBIBYTE
    """Largest message in either direction."""

    def __post_init__(self) -> None:
        for field in fields(self):
            value = getattr(self, field.name)
            if not value > 0:
                raise ConfigError(f"HookLimits.{field.name} is {value!r}; it must be greater than 0")
