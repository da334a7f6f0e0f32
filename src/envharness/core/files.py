"""Files that appear complete or not at all."""

from __future__ import annotations

import os
import tempfile
from pathlib import Path

from envharness.core.errors import StoreError


def write_atomically(path: Path, content: bytes) -> None:
    """Write `content` beside `path`, then move it there. Raises StoreError, and leaves nothing, where that fails."""
    # Moving a file there would put it in the place of a device, a pipe or a socket.
    if path.exists() and not path.is_file():
        raise StoreError(f"cannot write {path}: it is a folder or a device, not a file; nothing was changed there")
    temporary = None
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        with tempfile.NamedTemporaryFile(dir=path.parent, prefix=f".{path.name}.", delete=False) as file:
            temporary = Path(file.name)
            file.write(content)
            file.flush()
            os.fsync(file.fileno())
        temporary.chmod(0o644)
        temporary.replace(path)
    except OSError as error:
        if temporary is not None:
            temporary.unlink(missing_ok=True)
        raise StoreError(f"cannot write {path}: {error.strerror}; nothing was left there") from error
