"""Files that appear complete or not at all, and only where a file may be."""

from __future__ import annotations

import os
import stat
from pathlib import Path

import pytest

from envharness.core.errors import StoreError
from envharness.core.files import write_atomically


@pytest.mark.parametrize("kind", ["folder", "pipe", "device"])
def test_what_is_no_file_is_left_alone(kind: str, tmp_path: Path) -> None:
    path = tmp_path / "there"
    if kind == "folder":
        path.mkdir()
    elif kind == "pipe":
        os.mkfifo(path)
    else:
        path.symlink_to(os.devnull)
    before = path.stat().st_mode
    with pytest.raises(StoreError, match="not a file"):
        write_atomically(path, b"new")
    assert stat.S_IFMT(path.stat().st_mode) == stat.S_IFMT(before)
    assert [entry.name for entry in tmp_path.iterdir()] == ["there"]


def test_a_file_is_replaced_whole(tmp_path: Path) -> None:
    path = tmp_path / "deeper" / "file"
    write_atomically(path, b"old and long")
    write_atomically(path, b"new")
    assert path.read_bytes() == b"new"
    assert [entry.name for entry in path.parent.iterdir()] == ["file"]
