"""A chat client that a test writes the answers of, by the name of the call, and that keeps what it was asked."""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from typing import Any

from pydantic import JsonValue

from envharness.core.errors import OverloadedError, ProviderRefusedError
from envharness.core.types import JsonDict
from envharness.core.usage import Usage
from envharness.llm.chat import ChatAnswer, ChatClient, ChatRequest, ToolCall
from envharness.llm.config import ModelConfig
from rigger.halls import go

Answer = ChatAnswer | JsonDict | str | Exception
Write = Callable[[ChatRequest], Answer]
MODEL: JsonDict = {"client": "scripted", "model": "author", "answers": ["unused"]}

STUCK = """
class _Contract(Contract):
    LIMIT = 2

    def filter_action(self, action, env_state):
        if action.kwargs.get("text") != "walk on" or env_state.extras.get("stuck", 0) >= self.LIMIT:
            return action
        env_state.extras["stuck"] = env_state.extras.get("stuck", 0) + 1
        return Blocked(reason="The door is stuck.")
"""
DIAGNOSIS: JsonDict = {
    "flaw": "Gives up!",
    "explanation": "It rests at the first setback.",
    "evidence": [{"rollout": 0, "steps": [0, 1, 99], "what": "walks without a setback"}],
    "direction": "harden",
    "predicted_success_rate": 0.5,
    "predicted_failures": [{"axis": "persistence", "label": "gave up", "change": "more"}],
}
CANDIDATE: JsonDict = {"in_env_actions": [], "contract_source": STUCK, "rationale": "Two doors are stuck."}
STAGED: JsonDict = {"in_env_actions": [go("walk on").model_dump()], "contract_source": "", "rationale": "One room on."}


class Author(ChatClient):
    """Answers with what `write` returns; a dict becomes a call of the tool offered, or JSON where none is."""

    def __init__(self, write: Write, *, refuses_after: int | None = None) -> None:
        """`refuses_after` calls the endpoint refuses, which ends the run."""
        self._write = write
        self._refuses_after = refuses_after
        self.asked: list[ChatRequest] = []
        self.closed = False

    async def complete(self, request: ChatRequest) -> ChatAnswer:
        self.asked.append(request)
        if self._refuses_after is not None and len(self.asked) > self._refuses_after:
            raise ProviderRefusedError("401")
        answer = self._write(request)
        if isinstance(answer, Exception):
            raise answer
        if isinstance(answer, ChatAnswer):
            return answer
        usage = Usage(calls=1, prompt=100, completion=10)
        if isinstance(answer, str):
            return ChatAnswer(text=answer, usage=usage)
        if not request.tools:
            return ChatAnswer(text=json.dumps(answer), usage=usage)
        name = str(answer.pop("tool")) if "tool" in answer else request.tools[0].name
        call = ToolCall(id="1", name=name, arguments=json.dumps(answer))
        return ChatAnswer(tool_calls=(call,), finish_reason="tool_calls", usage=usage)

    async def close(self) -> None:
        self.closed = True

    def make(self, model: ModelConfig) -> ChatClient:
        del model
        return self

    def purposes(self) -> list[str]:
        return [request.key.partition("/")[2] for request in self.asked]


def well_written(request: ChatRequest, **replace: Any) -> Answer:
    """Answer each kind of call as a good designer would; `replace` gives other answers by purpose."""
    purpose = request.key.rpartition("/")[2]
    if purpose in replace:
        return replace[purpose]
    if purpose == "diagnose":
        return dict(DIAGNOSIS)
    if purpose == "write":
        return dict(CANDIDATE)
    if purpose == "failures":
        return label_all(request)
    return OverloadedError(f"nothing was written for {request.key}")


def label_all(request: ChatRequest) -> Answer:
    lost = re.findall(r"^<<data \w+ lost rollout (\d+)", request.messages[-1].content, re.MULTILINE)
    labels: list[JsonValue] = [
        {"rollout": int(index), "axis": "persistence", "label": "gave_up", "sentence": "It rested at the door."}
        for index in lost
    ]
    return {"failures": labels}
