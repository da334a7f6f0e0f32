"""Model calls in the run's store: what identifies one, what is kept of it, and what is read back."""

from __future__ import annotations

from typing import cast

from pydantic import ValidationError

from envharness.core.canonical import digest
from envharness.core.errors import StoreError
from envharness.core.messages import one_line
from envharness.core.types import JsonDict
from envharness.llm.chat import ChatAnswer
from envharness.rigger.requests import Answered, Call
from envharness.rollouts.ledger import MODEL_CALL
from envharness.store.database import RunStore


def call_key(call: Call) -> str:
    """Return the call's identity, 32 hexadecimal digits: equal requests to equally named models share it."""
    asked = {"model": call.model.model, "request": call.request.model_dump(mode="json")}
    return digest(cast("JsonDict", asked))


def stored_answer(store: RunStore, call: Call) -> Answered | None:
    """Return what the run has already paid for, or None. Raises StoreError where the record is damaged."""
    body = store.get_record(MODEL_CALL, call_key(call))
    if body is None:
        return None
    if body.get("answer") is not None:
        try:
            return Answered(ChatAnswer.model_validate(body["answer"]))
        except ValidationError as error:
            raise StoreError(f"{store.folder}: a model's answer in this run is damaged: {one_line(error)}") from error
    failure = "content_filter" if body.get("failure") == "content_filter" else "context_too_long"
    return Answered(failure=failure, detail=str(body.get("detail", "")))


def store_answer(store: RunStore, call: Call, answered: Answered) -> None:
    """Keep a completed call. A failure of the machinery is not kept: the next start asks again."""
    if answered.failure == "provider":
        return
    body: JsonDict = {
        "task": call.request.task,
        "role": call.request.role,
        "request": call.request.model_dump(mode="json"),
        "answer": None if answered.answer is None else answered.answer.model_dump(mode="json"),
        "failure": answered.failure,
        "detail": answered.detail,
    }
    store.put_record(MODEL_CALL, call_key(call), body)
