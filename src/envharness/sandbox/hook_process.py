"""The hook process: confine yourself, say so, take the source, then answer requests until the socket closes."""

from __future__ import annotations

import io
import os
import socket
import sys
from collections.abc import Callable
from typing import Any

import orjson

from envharness.core.types import Action, Blocked, EnvResponse, Observation
from envharness.sandbox.determinism import start_random
from envharness.sandbox.guard import PARENT_DEATH, Guard, GuardReport
from envharness.sandbox.hook_source import (
    MODULE_NAME,
    build_contract,
    check_returned,
    compile_source,
    describe_exception,
    overridden_hooks,
)
from envharness.sandbox.protocol import (
    AFTER_TRANSITION,
    FILTER_ACTION,
    FILTER_OBSERVATION,
    HEADER,
    LOAD,
    MODIFY_TRANSITION,
    READY_ID,
    RESTART,
    Spin,
    pack_frame,
    parse_header,
)
from envharness.sandbox.state_view import EnvState, HookMemory

_REHEARSAL = """
class Note(Observation):
    origin: str = "rehearsal"
class _Contract(Contract):
    def filter_action(self, action, env_state):
        return action if env_state.get("n") else Blocked(reason="n")
    def modify_transition(self, action, response, env_state):
        env_state.extras["n"] = env_state.extras.get("n", 0) + 1
        return response
    def filter_observation(self, observation, env_state):
        return Note(text=observation.text)
"""
"""A contract of our own, which uses what most contracts use."""
_REHEARSALS = 10
"""So often runs what the interpreter is to adapt."""
_NO_MEMORY = b'{"fault":{"hook":"load","reason":"MemoryError: the memory limit was reached"}}'

Reply = dict[str, Any]


class HookServer:
    """One contract and what it keeps for the episode."""

    def __init__(self, frame_bytes: int) -> None:
        self._frame_bytes = frame_bytes
        self._source = ""
        self._seed = 0
        self._state = b"{}"
        self._running = LOAD
        self._operations: dict[str, Callable[[Any], Reply]] = {
            LOAD: self._load,
            RESTART: self._restart,
            FILTER_ACTION: self._filter_action,
            AFTER_TRANSITION: self._after_transition,
            FILTER_OBSERVATION: self._filter_observation,
        }

    def answer(self, body: bytes, state: bytes) -> bytes:
        """Run one request. Never raises: whatever the hook does wrong becomes a fault in the reply."""
        if state:
            self._state = state
        try:
            request: dict[str, Any] = orjson.loads(body)
            self._running = request["op"]
            return self._encode(self._operations[self._running](request))
        except BaseException as error:  # noqa: BLE001  hook source may raise anything, SystemExit included
            return self._fault(error)

    def _encode(self, reply: Reply) -> bytes:
        encoded = orjson.dumps(reply)
        if len(encoded) > self._frame_bytes:
            raise ValueError(f"what it returned takes {len(encoded)} bytes; the limit is {self._frame_bytes}")
        return encoded

    def _fault(self, error: BaseException) -> bytes:
        try:
            reason = describe_exception(error, self._source)
            clean = reason.encode("utf-8", "replace").decode("utf-8")
            return orjson.dumps({"fault": {"hook": self._running, "reason": clean}})
        except BaseException:  # noqa: BLE001  out of memory while reporting that it is out of memory
            return _NO_MEMORY

    def _load(self, request: dict[str, Any]) -> Reply:
        self._source, self._seed = request["source"], request["seed"]
        self._code = compile_source(self._source)
        return self._restart(request)

    def _restart(self, _request: dict[str, Any]) -> Reply:
        self._running = LOAD
        self._memory = HookMemory()
        start_random(self._seed)
        self._contract, name = build_contract(self._code)
        return {"loaded": {"class_name": name, "overridden": overridden_hooks(self._contract)}}

    def _env_state(self) -> EnvState:
        return EnvState(orjson.loads(self._state), self._memory)

    def _filter_action(self, request: dict[str, Any]) -> Reply:
        value: Any = self._contract.filter_action(Action(**request["action"]), self._env_state())
        check_returned(value, (Action, Blocked))
        if isinstance(value, Blocked):
            return {"blocked": {"reason": value.reason}}
        return {"action": {"name": value.name, "kwargs": value.kwargs}}

    def _after_transition(self, request: dict[str, Any]) -> Reply:
        self._running = MODIFY_TRANSITION
        action, given = Action(**request["action"]), EnvResponse(**request["response"])
        response: Any = self._contract.modify_transition(action, given, self._env_state())
        check_returned(response, (EnvResponse,))
        observation = response.observation
        if not isinstance(observation, Observation):
            raise TypeError(f"the response's observation is {type(observation).__name__}, not Observation")
        info = orjson.Fragment(orjson.dumps(response.info))  # now, so that a fault in it is this hook's
        if request["filter_observation"]:
            self._running = FILTER_OBSERVATION
            observation = self._contract.filter_observation(observation, self._env_state())
        return {
            "response": {
                "observation": _observation_fields(observation),
                "reward": response.reward,
                "terminated": response.terminated,
                "truncated": response.truncated,
                "info": info,
            }
        }

    def _filter_observation(self, request: dict[str, Any]) -> Reply:
        shown = Observation(**request["observation"])
        return {"observation": _observation_fields(self._contract.filter_observation(shown, self._env_state()))}


def _observation_fields(observation: Any) -> Reply:
    check_returned(observation, (Observation,))
    return {"text": observation.text, "data": observation.data}


def serve(descriptor: int, *, frame_bytes: int, guard: Guard | None, limits: tuple[int, int], parent: int) -> None:
    """Become a hook process on the socket `descriptor`; returns when the other side closes.

    `limits` are bytes of memory and seconds of CPU. Without a guard nothing confines the source.
    """
    sys.stdin = sys.stdout = sys.stderr = _Nowhere()
    report = GuardReport(missing={"guard": "switched off"})
    if guard is not None:
        report = guard.apply(memory_bytes=limits[0], cpu_seconds=limits[1], parent=parent)
    elif sys.platform == "linux":
        report.applied[PARENT_DEATH] = Guard(descriptor).die_with_parent(parent)
    channel = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM, 0, descriptor)
    ready = {"ready": {"applied": report.applied, "missing": report.missing}}
    channel.sendall(pack_frame(READY_ID, orjson.dumps(ready)))
    if guard is not None and report.missing_required():
        return
    server = HookServer(frame_bytes)
    inbox = bytearray()
    spin = False  # the source comes when a session wants this process, which may be much later
    while (frame := _next_frame(channel, inbox, frame_bytes, spin=spin)) is not None:
        request_id, body, state = frame
        channel.sendall(pack_frame(request_id, server.answer(body, state)))
        spin = True


class _Nowhere(io.TextIOBase):
    """A text stream that swallows what is written, so that a stray print costs no fault."""

    def write(self, text: str, /) -> int:
        return len(text)


def _next_frame(
    channel: socket.socket, inbox: bytearray, frame_bytes: int, *, spin: bool
) -> tuple[int, bytes, bytes] | None:
    """The next request as (id, body, state), or None at the end of the session."""
    if not _receive(channel, inbox, HEADER.size, spin=spin):
        return None
    header = parse_header(inbox[: HEADER.size], frame_bytes)
    end = HEADER.size + header.length
    if not _receive(channel, inbox, end, spin=False):
        return None
    split = HEADER.size + header.body_length
    body, state = bytes(inbox[HEADER.size : split]), bytes(inbox[split:end])
    del inbox[:end]
    return header.request_id, body, state


def _receive(channel: socket.socket, inbox: bytearray, wanted: int, *, spin: bool) -> bool:
    """Fill `inbox` up to at least `wanted` bytes; False at end of file."""
    spinning = Spin() if spin else None
    while len(inbox) < wanted:
        try:
            chunk = channel.recv(65536, 0 if spinning is None else socket.MSG_DONTWAIT)
        except BlockingIOError:
            if spinning is not None and not spinning.again():
                spinning = None
            continue
        except ConnectionResetError:
            return False
        if not chunk:
            return False
        inbox += chunk
    return True


def rehearse() -> None:
    """In the zygote: run a contract of our own, so that what a process does once only is done before any fork.

    The interpreter adapts the code that it runs and the linker binds what is called; a fork inherits both. A first
    Pydantic model alone costs a hundred milliseconds.
    """
    server = HookServer(1 << 20)
    action = {"name": "a", "kwargs": {"n": 1}}
    response = {"observation": {"text": "t", "data": {"n": 1}}, "info": {}}
    requests: list[dict[str, Any]] = [
        {"op": LOAD, "source": _REHEARSAL, "seed": 0},
        *[
            {"op": FILTER_ACTION, "action": action},
            {"op": AFTER_TRANSITION, "action": action, "response": response, "filter_observation": True},
            {"op": FILTER_OBSERVATION, "observation": {"text": "t"}},
        ]
        * _REHEARSALS,
    ]
    for request in requests:
        reply: dict[str, Any] = orjson.loads(server.answer(orjson.dumps(request), b'{"n": 1}'))
        if "fault" in reply:
            raise RuntimeError(f"the sandbox cannot run a contract of its own: {reply['fault']}")
    del sys.modules[MODULE_NAME]


def run_forked(descriptor: int, settings: dict[str, Any], guard: Guard | None, parent: int) -> None:
    """The whole life of a freshly forked hook process. Never returns to the zygote's code."""
    status = 70
    try:
        limits = (int(settings["memory_bytes"]), int(settings["cpu_seconds"]))
        serve(descriptor, frame_bytes=int(settings["frame_bytes"]), guard=guard, limits=limits, parent=parent)
        status = 0
    finally:
        os._exit(status)
