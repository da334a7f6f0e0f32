"""Reads a model's answer with tolerance: tool call, JSON, or JSON among words. What it lacks is said, not guessed."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from typing import Any, cast

from pydantic import BaseModel, ConfigDict, Field, JsonValue, ValidationError, field_validator, model_validator

from envharness.core.messages import one_line
from envharness.core.types import Action, JsonDict
from envharness.llm.chat import ChatAnswer
from envharness.llm.thoughts import split_thought
from envharness.rigger.records import FailureLabel, PredictedChange, Prediction

MAX_STARTS = 64
"""Braces tried as the start of a JSON object before an answer counts as holding none."""
MAX_ANSWER = 200_000
"""Characters of an answer that are read."""
_PYTHON = re.compile(r"```(?:python|py)[ \t]*\n(.*?)(?:```|\Z)", re.DOTALL | re.IGNORECASE)
_FENCED = re.compile(r"\A\s*```\w*[ \t]*\n(.*?)\n?```\s*\Z", re.DOTALL)


class UnusableAnswerError(Exception):
    """The answer holds nothing that can be used. The message is told to the model; it never leaves this package."""


class CitedSteps(BaseModel):
    """Steps of one rollout in which a flaw shows."""

    rollout: int = Field(ge=0)
    steps: list[int] = Field(min_length=1)
    what: str = ""


class WrittenDiagnosis(BaseModel):
    """A diagnosis as a model writes it."""

    model_config = ConfigDict(extra="ignore")

    flaw: str = Field(min_length=1, max_length=80)
    explanation: str = Field(min_length=1)
    evidence: list[CitedSteps] = Field(min_length=1)
    direction: str = Field(pattern="^(harden|scaffold|sharpen)$")
    predicted_success_rate: float | None = Field(default=None, ge=0.0, le=1.0)
    predicted_failures: list[PredictedChange] = Field(default_factory=list[PredictedChange])

    @field_validator("flaw")
    @classmethod
    def _as_name(cls, flaw: str) -> str:
        return label_name(flaw)

    @property
    def prediction(self) -> Prediction:
        """What it expects of the candidate to come."""
        changes = [item.model_copy(update={"label": label_name(item.label)}) for item in self.predicted_failures]
        return Prediction(success_rate=self.predicted_success_rate, failures=changes)


class WrittenCandidate(BaseModel):
    """A candidate as a model writes it."""

    model_config = ConfigDict(extra="ignore")

    in_env_actions: list[Action] = Field(default_factory=list[Action])
    contract_source: str = ""
    rationale: str = ""

    @field_validator("in_env_actions", mode="before")
    @classmethod
    def _spellings(cls, value: object) -> object:
        value = _decoded(value)
        if value is None:
            return []
        return [as_action(item) for item in cast("list[object]", value)] if isinstance(value, list) else value

    @field_validator("contract_source", mode="before")
    @classmethod
    def _bare(cls, value: object) -> object:
        if value is None:
            return ""
        if not isinstance(value, str):
            return value
        fenced = _FENCED.match(value)
        text = fenced[1] if fenced else value
        return f"{text.strip()}\n" if text.strip() else ""


class WrittenLabels(BaseModel):
    """The labels of a batch of losses."""

    model_config = ConfigDict(extra="ignore")

    failures: list[FailureLabel]

    @model_validator(mode="after")
    def _as_names(self) -> WrittenLabels:
        self.failures = [item.model_copy(update={"label": label_name(item.label)}) for item in self.failures]
        return self


Written = WrittenDiagnosis | WrittenCandidate | WrittenLabels


def label_name(text: str) -> str:
    """Return a label as one name, so that `Gave up!` and `gave_up` are the same."""
    return re.sub(r"\W+", "_", text.strip().lower()).strip("_")[:60] or "unnamed"


def read_diagnosis(answer: ChatAnswer, shown: Mapping[int, int]) -> WrittenDiagnosis:
    """Read a diagnosis. `shown` holds the number of turns of each rollout: evidence that is not there is dropped.

    Raises UnusableAnswerError where there is none, or none of its evidence exists.
    """
    written = _validated(WrittenDiagnosis, read_object(answer, "flaw"))
    real = [
        cited.model_copy(update={"steps": steps})
        for cited in written.evidence
        if (steps := [step for step in cited.steps if 0 <= step < shown.get(cited.rollout, 0)])
    ]
    if not real:
        named = "; ".join(f"rollout {cited.rollout}, steps {cited.steps[:6]}" for cited in written.evidence[:4])
        raise UnusableAnswerError(f"the evidence names no step of the rollouts shown ({named})")
    return written.model_copy(update={"evidence": real})


def read_candidate(answer: ChatAnswer) -> WrittenCandidate:
    """Read a candidate. Source in a Python block of its own counts. Raises UnusableAnswerError where there is none."""
    blocks = _PYTHON.findall(split_thought(answer.text)[1])
    try:
        found = read_object(answer, "contract_source", "in_env_actions")
    except UnusableAnswerError:
        if not blocks or answer.finish_reason == "length":
            raise
        found = {}
    if not found.get("contract_source") and len(blocks) == 1:
        found = {**found, "contract_source": blocks[0]}
    return _validated(WrittenCandidate, found)


def read_labels(answer: ChatAnswer, lost: Sequence[int]) -> tuple[FailureLabel, ...]:
    """Read the labels of the rollouts in `lost`, the first one of each. Raises UnusableAnswerError where none is."""
    written = _validated(WrittenLabels, read_object(answer, "failures"))
    first: dict[int, FailureLabel] = {}
    for label in written.failures:
        if label.rollout in lost:
            first.setdefault(label.rollout, label)
    if not first:
        raise UnusableAnswerError("it labels none of the lost rollouts")
    return tuple(first[rollout] for rollout in sorted(first))


def read_object(answer: ChatAnswer, *keys: str) -> JsonDict:
    """Return the first JSON object with one of `keys`: of a tool call, else of the text. Raises UnusableAnswerError."""
    texts = [call.arguments for call in answer.tool_calls] + [split_thought(answer.text)[1]]
    found = [candidate for text in texts for candidate in _objects(text[:MAX_ANSWER])]
    for candidate in found:
        if any(key in candidate for key in keys):
            return candidate
    if answer.finish_reason == "length":
        raise UnusableAnswerError(
            "the answer was cut at the token limit (sampling.max_tokens) before it was complete: write less"
        )
    if found:
        raise UnusableAnswerError(f"the JSON has no {' or '.join(repr(key) for key in keys)} at its top level")
    said = " ".join(split_thought(answer.text)[1].split())[:120]
    raise UnusableAnswerError(f"no tool call and no JSON object in the answer ({said!r})" if said else "empty answer")


def as_action(value: object) -> object:
    """Return an action in our spelling, from the spellings that models are used to; anything else as it is."""
    value = _decoded(value)
    if not isinstance(value, dict):
        return value
    fields = dict(cast("dict[str, Any]", value))
    inner = fields.get("function")
    if isinstance(inner, dict):
        fields = dict(cast("dict[str, Any]", inner))
    name = next((fields[key] for key in ("name", "tool", "action") if key in fields), None)
    arguments = next((fields[key] for key in ("kwargs", "arguments", "args", "parameters") if key in fields), None)
    arguments = _decoded(arguments)
    return {"name": name, "kwargs": {} if arguments is None else arguments}


def _objects(text: str) -> list[JsonDict]:
    """Return the JSON objects in a text, outermost ones only, in order."""
    # Models write line breaks into strings, which strict JSON forbids.
    decoder = json.JSONDecoder(strict=False)
    found: list[JsonDict] = []
    place = text.find("{")
    for _ in range(MAX_STARTS):
        if place < 0:
            break
        try:
            value, end = decoder.raw_decode(text, place)
        except (ValueError, RecursionError):
            end = place + 1
        else:
            if isinstance(value, dict):
                found.append(cast("JsonDict", value))
        place = text.find("{", end)
    return found


def _decoded(value: object) -> object:
    """Decode JSON that came as a string where a value was asked for."""
    if isinstance(value, str):
        try:
            return json.loads(value, strict=False)
        except (ValueError, RecursionError):
            return value
    return value


def _validated(model: type[Any], found: JsonValue) -> Any:
    try:
        return model.model_validate(found)
    except (ValidationError, RecursionError) as error:
        raise UnusableAnswerError(_explain(error)) from None


def _explain(error: Exception) -> str:
    if not isinstance(error, ValidationError):
        return "the JSON is nested too deep"
    return one_line(error)
