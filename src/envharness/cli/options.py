"""Options that several commands share, and `key=value` pairs."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal

import typer
from pydantic import JsonValue

from envharness.core.errors import ConfigError
from envharness.core.types import JsonDict
from envharness.rollouts.interrupts import MAX_GRACE_SECONDS

RunArgument = Annotated[Path, typer.Argument(help="A run folder.")]
JsonOption = Annotated[bool, typer.Option("--json", help="End with one JSON object.")]
GraceOption = Annotated[
    float,
    typer.Option(
        "--grace",
        min=0,
        max=MAX_GRACE_SECONDS,
        help="Seconds to finish what is in flight after Ctrl-C or SIGTERM; 0 stops at once.",
    ),
]

if TYPE_CHECKING:
    from envharness.rollouts.sizing import Count

Workers = Annotated[str | None, typer.Option(metavar="N|auto", help="The most worker processes; auto fits the work.")]
SnapshotsOption = Annotated[
    Literal["auto", "always", "never"] | None,
    typer.Option("--snapshots", help="Fork rollouts from one staged start: where it pays, where it can be, or not."),
]
EpisodesPerWorker = Annotated[
    str | None, typer.Option(metavar="N|auto", help="Episodes a worker plays at once; auto fits the work.")
]


def parse_count(option: str, text: str | None) -> Count:
    """Read a number or `auto`; not given is `auto`. Raises ConfigError naming the option."""
    from envharness.rollouts.sizing import read_count

    try:
        return read_count("auto" if text is None else text)
    except ValueError as error:
        raise ConfigError(f"{option} {error}, not {text!r}") from error


def parse_options(pairs: list[str]) -> JsonDict:
    """Turn `["max_steps=12", "target=24"]` into JSON values, read as YAML: `12` is a number, `"12"` text."""
    import yaml

    options: JsonDict = {}
    for pair in pairs:
        key, equals, text = pair.partition("=")
        if not equals or not key:
            raise ConfigError(f"option {pair!r} is not of the form key=value")
        try:
            value: JsonValue = yaml.safe_load(text)
        except (yaml.YAMLError, ValueError, RecursionError) as error:
            raise ConfigError(f"option {pair!r}: the value is not YAML") from error
        options[key] = value
    return options
