"""Files that appear complete or not at all."""

from __future__ import annotations

import os
import tempfile
from pathlib import Path

from envharness.core.errors import StoreError


def write_atomically(path: Path, content: bytes) -> None:
    """Write `content` beside `path`, then move it there. Raises StoreError, and leaves nothing, where that fails."""
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
