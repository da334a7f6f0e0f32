"""The result of a hardening run in its store."""

from __future__ import annotations

from typing import TypeVar, cast

from pydantic import BaseModel, ValidationError

from envharness.campaign.harden.records import CaseResult, HardenResult
from envharness.core.errors import StoreError
from envharness.core.messages import one_line
from envharness.core.types import JsonDict
from envharness.store.database import LIVE, RunStore

Model = TypeVar("Model", bound=BaseModel)

COMMAND = "harden"
RESULT = "harden_result"
CASE = "harden_case"
"""The kind of record that keeps what became of a case in one of the passes, so that it is not worked out again."""
KEY = "suite"


def is_decided(case: CaseResult) -> bool:
    """Whether all that was asked for is there, so that another start would come to the same."""
    return case.status != "invalid" and case.played.valid == case.played.asked


def put_case(store: RunStore, name: str, case: CaseResult) -> None:
    """Keep the result of a case that is decided, and no other."""
    if is_decided(case):
        store.put_record(CASE, name, cast("JsonDict", case.model_dump(mode="json")))


def load_case(store: RunStore, name: str) -> CaseResult | None:
    """Return the result of a case, or None where it is not decided. Raises StoreError where it is damaged."""
    body = store.get_record(CASE, name)
    return None if body is None else _read(CaseResult, body, f"the case {name!r}")


def put_result(store: RunStore, result: HardenResult) -> None:
    """Keep the result. One with invalid rollouts is no decision: it may be replaced when the run is started again."""
    kind = RESULT if result.complete else f"{LIVE}{RESULT}"
    store.put_record(kind, KEY, cast("JsonDict", result.model_dump(mode="json")))


def load_result(store: RunStore) -> HardenResult | None:
    """Return the result, or None where the run has not come to it. Raises StoreError where it is damaged."""
    body = store.get_record(RESULT, KEY) or store.get_record(f"{LIVE}{RESULT}", KEY)
    return None if body is None else _read(HardenResult, body, "the result")


def _read(model: type[Model], body: JsonDict, what: str) -> Model:
    try:
        return model.model_validate(body)
    except ValidationError as error:
        raise StoreError(f"{what} of this run is damaged: {one_line(error)}") from error
