"""Whether a run that is started again is still the same run."""

from __future__ import annotations

import json

from pydantic import JsonValue


def version_series(version: str) -> str:
    """Return `0.1` of `0.1.3`: versions of one series make the same of the same rollouts."""
    return ".".join(version.split(".")[:2])


def differences(former: JsonValue, current: JsonValue, place: str = "") -> list[str]:
    """Name every key that differs, with both values."""
    if isinstance(former, dict) and isinstance(current, dict):
        found: list[str] = []
        for key in sorted({*former, *current}):
            found += differences(former.get(key), current.get(key), f"{place}.{key}" if place else key)
        return found
    if former == current:
        return []
    return [f"{place} was {_brief(former)}, is now {_brief(current)}"]


def _brief(value: JsonValue) -> str:
    text = json.dumps(value)
    return text if len(text) <= 60 else f"{text[:57]}..."  # noqa: PLR2004  fits a line beside its key
