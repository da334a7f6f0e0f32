"""What a plan asks the driver for, and what it is sent in answer: batches of rollouts, and model calls."""

from __future__ import annotations

from collections.abc import Generator
from dataclasses import dataclass
from typing import Literal, TypeAlias, TypeVar

from envharness.core.trace import Episode
from envharness.llm.chat import ChatAnswer, ChatRequest
from envharness.llm.config import ModelConfig
from envharness.rollouts.job import RolloutJob

CallFailure = Literal["context_too_long", "content_filter", "provider"]


@dataclass(frozen=True)
class Batch:
    """Jobs that are decided upon together."""

    phase: str
    """Where the store files them, such as `rig/template/round-1`."""
    jobs: tuple[RolloutJob, ...]
    paid: bool = True
    """Whether the policy plays; False for probes, which cost nothing."""


@dataclass(frozen=True)
class Call:
    """One question to a model. Its answer is in the store before the plan sees it."""

    request: ChatRequest
    model: ModelConfig


@dataclass(frozen=True)
class Answered:
    """What became of a call: an answer, or the reason why there is none."""

    answer: ChatAnswer | None = None
    failure: CallFailure | None = None
    """`context_too_long` and `content_filter` are final: asking the same again ends the same. `provider` is the
    machinery's failure and is asked again when the run is started again. None where there is an answer."""
    detail: str = ""


Request: TypeAlias = Batch | Call
Reply: TypeAlias = list[Episode] | Answered
Result = TypeVar("Result")
Work: TypeAlias = Generator[Request, Reply, Result]
"""A computation that asks for rollouts and answers on its way. It holds no engine, client, store or clock."""


def play(batch: Batch) -> Work[list[Episode]]:
    """Ask for the episodes of `batch`; they come in the order of its jobs."""
    reply = yield batch
    if isinstance(reply, Answered):
        raise TypeError("a batch was answered with a model's answer; send its episodes")
    return reply


def ask(call: Call) -> Work[Answered]:
    """Ask a model."""
    reply = yield call
    if not isinstance(reply, Answered):
        raise TypeError("a call was answered with episodes; send an Answered")
    return reply
