"""`python -m envharness.cli`: the same as the `envharness` program."""

from __future__ import annotations

from envharness.cli import main

if __name__ == "__main__":
    main()
