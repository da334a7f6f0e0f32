"""Runs benchmarks by name: a table, or one JSON object `{measure: {value, unit, goal, ok}}` as the last line."""

from __future__ import annotations

import argparse
import importlib
import json
from dataclasses import asdict

from benchmarks import BENCHMARKS, Figure


def main() -> None:
    """Parse the command line and run."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks", description="Measure; never a test.")
    parser.add_argument("name", nargs="*", choices=[*BENCHMARKS, []], help="which ones; all of them without a name")
    parser.add_argument("--json", action="store_true", help="print nothing but the JSON object")
    options = parser.parse_args()
    figures: dict[str, Figure] = {}
    for name in options.name or BENCHMARKS:
        measured: dict[str, Figure] = importlib.import_module(BENCHMARKS[name]).measure()
        if not options.json:
            _print_table(name, measured)
        figures |= measured
    print(json.dumps({measure: asdict(figure) for measure, figure in figures.items()}))


def _print_table(name: str, figures: dict[str, Figure]) -> None:
    print(f"{name}")
    for measure, figure in figures.items():
        verdict = "" if figure.ok is None else "ok" if figure.ok else "MISSED"
        print(f"  {measure:<44} {figure.value:>12.4g} {figure.unit:<10} {figure.goal:<10} {verdict}")


if __name__ == "__main__":
    main()
