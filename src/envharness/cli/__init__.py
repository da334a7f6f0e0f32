"""The command line: one module a command."""

from __future__ import annotations

import sys


def main() -> None:
    """Run the command line on `sys.argv` and exit with its code."""
    from envharness.cli.app import run

    sys.exit(run(sys.argv[1:]))
