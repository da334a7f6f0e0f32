"""The command line: one module a command."""

from __future__ import annotations

import sys


def main() -> None:
    """Run the command line on `sys.argv` and exit with its code."""
    try:
        from envharness.cli.app import run
    except KeyboardInterrupt:  # importing takes a moment, in which Ctrl-C would be a traceback
        sys.stderr.write("error: interrupted before anything was begun\n")
        sys.exit(130)
    sys.exit(run(sys.argv[1:]))
