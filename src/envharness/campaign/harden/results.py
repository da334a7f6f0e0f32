"""The result of a hardening run in its store."""

from __future__ import annotations

from typing import cast

from pydantic import ValidationError

from envharness.campaign.harden.records import HardenResult
from envharness.core.errors import StoreError
from envharness.core.messages import one_line
from envharness.core.types import JsonDict
from envharness.store.database import LIVE, RunStore

COMMAND = "harden"
RESULT = "harden_result"
KEY = "suite"


def put_result(store: RunStore, result: HardenResult) -> None:
    """Keep the result. One with invalid rollouts is no decision: it may be replaced when the run is started again."""
    kind = RESULT if result.complete else f"{LIVE}{RESULT}"
    store.put_record(kind, KEY, cast("JsonDict", result.model_dump(mode="json")))


def load_result(store: RunStore) -> HardenResult | None:
    """Return the result, or None where the run has not come to it. Raises StoreError where it is damaged."""
    body = store.get_record(RESULT, KEY) or store.get_record(f"{LIVE}{RESULT}", KEY)
    if body is None:
        return None
    try:
        return HardenResult.model_validate(body)
    except ValidationError as error:
        raise StoreError(f"the result of this run is damaged: {one_line(error)}") from error
