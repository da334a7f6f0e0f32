"""What starting costs: importing the package, and the command line saying its help."""

from __future__ import annotations

import statistics
import subprocess
import sys
from time import perf_counter

from benchmarks import Figure, at_most

RUNS = 7


def measure() -> dict[str, Figure]:
    """Medians of whole processes; the bare interpreter is subtracted."""
    bare = _seconds("pass")
    return {
        "import_envharness": at_most(_seconds("import envharness") - bare, "s", 0.3),
        "import_all_public_names": Figure(_seconds("from envharness import *") - bare, "s"),
        "command_line_help": Figure(_seconds("from envharness.cli.app import run; run(['--help'])") - bare, "s"),
    }


def _seconds(code: str) -> float:
    def once() -> float:
        began = perf_counter()
        subprocess.run([sys.executable, "-c", code], check=True, stdout=subprocess.DEVNULL)
        return perf_counter() - began

    return statistics.median(once() for _ in range(RUNS))
