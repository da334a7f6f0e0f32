from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]


@pytest.mark.slow
def test_the_simulation_of_the_documentation_runs_and_repeats() -> None:
    command = [sys.executable, "-m", "benchmarks.statistics", "--tasks", "6"]
    first, second = (subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=True) for _ in range(2))
    # All but the figures, of which one is a time.
    assert [line for line in first.stdout.splitlines() if line[:1] != "{"] == [
        line for line in second.stdout.splitlines() if line[:1] != "{"
    ]
    figures = json.loads(next(line for line in first.stdout.splitlines() if line.startswith("{")))
    assert figures["statistics_identity_passes_method_at_080"]["ok"]
    # Each row adds up: what was accepted and is not true is a false accept.
    rows = [line.split("|")[1:-1] for line in first.stdout.splitlines() if "±" in line]
    assert len(rows) > 20
    for _, _, accepted, share, _, false, _, _ in rows:
        assert float(false) == pytest.approx(float(accepted) * (1 - float(share.split("±")[0])), abs=0.02)
