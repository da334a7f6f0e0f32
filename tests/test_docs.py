"""Everything the README and the docs show is run: Python blocks as programs, `$ envharness` lines as commands."""

from __future__ import annotations

import importlib.util
import re
import shlex
import subprocess
import sys
from pathlib import Path

import pytest

from presence import absent

ROOT = Path(__file__).parents[1]
PAGES = [ROOT / "README.md", *sorted((ROOT / "docs").rglob("*.md")), *sorted((ROOT / "examples").rglob("*.md"))]
BLOCK = re.compile(r"^```(?P<kind>python|console)(?P<tags>[^\n]*)\n(?P<text>.*?)^```", re.MULTILINE | re.DOTALL)

CASES = [
    pytest.param(
        match["kind"],
        match["tags"],
        match["text"],
        id=f"{page.relative_to(ROOT)}:{page.read_text()[: match.start()].count(chr(10)) + 1}",
    )
    for page in PAGES
    for match in BLOCK.finditer(page.read_text())
    if "local-model" not in match["tags"]  # needs a served model: tests/policies/test_llm_readme.py
]


@pytest.mark.slow
@pytest.mark.parametrize(("kind", "tags", "text"), CASES)
def test_what_the_docs_show_runs(kind: str, tags: str, text: str, tmp_path: Path) -> None:
    """A block tagged `alfworld` needs that extra; one tagged `fails` must exit with an error."""
    if "alfworld" in tags and importlib.util.find_spec("textworld") is None:
        raise absent("the ALFWorld engine is not installed; run scripts/install-alfworld")
    for name in ("experiments", "examples"):
        (tmp_path / name).symlink_to(ROOT / name)
    if kind == "python":
        run(tmp_path, [sys.executable, "-c", text], fails="fails" in tags)
        return
    for line in text.splitlines():
        if line.startswith("$ envharness"):
            run(tmp_path, [sys.executable, "-m", "envharness.cli", *shlex.split(line)[2:]], fails="fails" in tags)


def run(folder: Path, command: list[str], *, fails: bool) -> None:
    done = subprocess.run(command, cwd=folder, capture_output=True, text=True, timeout=300, check=False)
    assert (done.returncode != 0) == fails, f"{command}\n{done.stdout[-2000:]}\n{done.stderr[-2000:]}"


def test_every_link_between_pages_leads_somewhere() -> None:
    for page in PAGES:
        for target in re.findall(r"\]\(([^)#:]+)(?:#[^)]*)?\)", page.read_text()):
            assert (page.parent / target).exists(), f"{page.relative_to(ROOT)} links to {target}"
