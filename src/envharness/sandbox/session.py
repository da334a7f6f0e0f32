"""A hook session: one confined child process for one contract and one episode.

The session sends copies in and validates what comes out; what a hook proposes is data, and what to do with it is the
caller's decision.
"""

from __future__ import annotations

import contextlib
import math
import os
import select
import signal
import sys
from collections.abc import Callable
from time import monotonic
from types import TracebackType
from typing import Any, Self, TypeVar, cast

import orjson
from pydantic import BaseModel, ConfigDict, ValidationError

from envharness.core.errors import (
    EnvHarnessError,
    HookFault,
    SandboxUnavailableError,
    SpecError,
    ZygoteError,
)
from envharness.core.messages import first_problem, printable
from envharness.core.types import Action, Blocked, EnvResponse, JsonDict, Observation
from envharness.sandbox.blame import cpu_seconds, describe_end, starved
from envharness.sandbox.channel import Channel, ChannelClosedError, ChannelDeadlineError
from envharness.sandbox.guard import REQUIRED_LAYERS
from envharness.sandbox.launcher import HookChild, current_zygote
from envharness.sandbox.limits import HookLimits
from envharness.sandbox.protocol import (
    AFTER_TRANSITION,
    FILTER_ACTION,
    FILTER_OBSERVATION,
    HOOKS,
    LOAD,
    MODIFY_TRANSITION,
    READY_ID,
    REASON_CHARACTERS,
    RESTART,
    FrameError,
    pack_frame,
)

_DEATH_SECONDS = 5.0


class _Loaded(BaseModel):
    model_config = ConfigDict(extra="forbid")

    class_name: str
    overridden: list[str]


_Model = TypeVar("_Model", bound=BaseModel)
_Value = TypeVar("_Value")


class HookSession:
    """One contract in its own process, for one episode. Made by `open_session`; a context manager.

    Calls raise `HookFault` when the hook is at fault and `ZygoteError` when the machine is; either ends the session.
    One thread at a time may use a session; many sessions may live at once.
    """

    overridden: frozenset[str]
    """The hooks that the contract's class overrides. The others cost nothing and change nothing."""
    class_name: str
    """The contract's class as found in the source: `_Contract` or `_Rules`."""
    round_trips: int
    """Exchanges with the hook process so far; loading is one."""
    pid: int
    """The hook process."""
    layers: dict[str, str]
    """The layers that confine it, each with a detail; nearly empty when unsafe."""
    missing_layers: dict[str, str]
    """The layers that do not, each with the reason."""

    def __init__(self, child: HookChild, limits: HookLimits) -> None:
        self._child = child
        self._limits = limits
        self._channel = Channel(child.channel, limits.frame_bytes)
        self._owner = os.getpid()
        self._request_id = READY_ID
        self._state_sent: bytes | None = None
        self._closed_because: str | None = None
        self.pid = child.pid
        self.round_trips = 0
        self.layers, self.missing_layers = {}, {}
        self.overridden = frozenset()
        self.class_name = ""

    def filter_action(self, action: Action, state: JsonDict) -> Action | Blocked:
        """f_A: what shall be done instead of `action`, or why it is refused. `state` is the one before the step."""
        if FILTER_ACTION not in self.overridden:
            return action
        reply = self._call(FILTER_ACTION, {"action": action.model_dump()}, state)
        if "blocked" in reply:
            return self._parse(FILTER_ACTION, reply, "blocked", Blocked)
        proposed = self._parse(FILTER_ACTION, reply, "action", Action)
        proposed.replayed = action.replayed  # the Stage's word, never the hook's
        return proposed

    def after_transition(self, action: Action, response: EnvResponse, state: JsonDict) -> EnvResponse:
        """f_T, then f_O on what it returns, in one round trip; `state` is the one after the step.

        Returns what the hooks propose, all five fields of it, or `response` itself where neither is overridden.
        Numbers that JSON lacks (NaN, infinities) come back as None from `info` and `data`; a reward must be finite,
        else `SpecError`.
        """
        if MODIFY_TRANSITION not in self.overridden:
            shown = self.filter_observation(response.observation, state)
            return response if shown is response.observation else response.model_copy(update={"observation": shown})
        if not math.isfinite(response.reward):
            raise SpecError(f"{response.reward} cannot be sent to a hook", place="response.reward")
        request = {
            "action": action.model_dump(),
            "response": response.model_dump(),
            "filter_observation": FILTER_OBSERVATION in self.overridden,
        }
        reply = self._call(AFTER_TRANSITION, request, state)
        return self._parse(MODIFY_TRANSITION, reply, "response", EnvResponse)

    def filter_observation(self, observation: Observation, state: JsonDict) -> Observation:
        """f_O alone, for the observation after reset."""
        if FILTER_OBSERVATION not in self.overridden:
            return observation
        reply = self._call(FILTER_OBSERVATION, {"observation": observation.model_dump()}, state)
        return self._parse(FILTER_OBSERVATION, reply, "observation", Observation)

    def restart_extras(self) -> None:
        """Begin the hook's episode again: the source runs anew, so extras, attributes and random streams are fresh."""
        if self.overridden:
            reply = self._call(RESTART, {}, None, seconds=self._limits.load_seconds)
            self._parse(LOAD, reply, "loaded", _Loaded)

    def close(self) -> None:
        """Kill the hook process; the zygote reaps it. May be called again, and after a fault (then it is gone)."""
        if self._closed_because is None:
            self._leave("the session was closed", self._kill)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def begin(self, *, confined: bool) -> None:
        """Wait for the child to say that it is confined. `SandboxUnavailableError` names a layer that did not hold."""
        deadline = monotonic() + self._limits.load_seconds
        try:
            body = self._guarded(LOAD, self._limits.load_seconds, lambda: self._channel.receive(READY_ID, deadline))
        except HookFault as error:  # no source is there yet, so no hook can be at fault
            raise ZygoteError(f"the hook process did not start: {error.reason}") from error
        ready = orjson.loads(body)["ready"]  # sent before any source was there: to be trusted
        self.layers, self.missing_layers = ready["applied"], ready["missing"]
        lacking = [layer for layer in REQUIRED_LAYERS if layer not in self.layers]
        if confined and lacking:
            self._end("the sandbox is not complete")
            missing = "; ".join(f"{layer}: {self.missing_layers.get(layer, 'absent')}" for layer in lacking)
            raise SandboxUnavailableError(
                f"this system cannot confine hook code ({missing}); run on a Linux with Landlock and seccomp, "
                "or accept the risk with --unsafe-hooks"
            )

    def load(self, source: str, seed: int) -> None:
        """Send the source; `HookFault("load", …)` when it does not become a contract."""
        request = {"source": source, "seed": seed}
        reply = self._call(LOAD, request, None, seconds=self._limits.load_seconds)
        loaded = self._parse(LOAD, reply, "loaded", _Loaded)
        if unknown := set(loaded.overridden) - set(HOOKS):
            raise self._fault(LOAD, f"reports hooks that do not exist: {sorted(unknown)}")
        self.overridden = frozenset(loaded.overridden)
        self.class_name = loaded.class_name

    def _call(
        self, operation: str, request: dict[str, Any], state: JsonDict | None, seconds: float | None = None
    ) -> dict[str, Any]:
        hook = MODIFY_TRANSITION if operation == AFTER_TRANSITION else LOAD if operation == RESTART else operation
        if self._closed_because is not None:
            raise HookFault(hook, f"no call is possible any more: {self._closed_because}")
        body = _to_json({"op": operation, **request}, "request")
        state_bytes = b"" if state is None else _to_json(state, "state")
        if state_bytes == self._state_sent:
            state_bytes = b""
        size = len(body) + len(state_bytes)
        if size > self._limits.frame_bytes:
            raise SpecError(f"{size} bytes for one hook call; raise HookLimits.frame_bytes", place="state")
        self._request_id = self._request_id % 0xFFFFFFFF + 1
        frame = pack_frame(self._request_id, body, state_bytes)
        limit = self._limits.call_seconds if seconds is None else seconds
        answer = self._guarded(hook, limit, lambda: self._channel.exchange(frame, self._request_id, limit))
        self.round_trips += 1
        if state_bytes:
            self._state_sent = state_bytes
        return self._read_reply(hook, answer)

    def _guarded(self, hook: str, seconds: float, exchange: Callable[[], _Value]) -> _Value:
        """Run one exchange; turn what goes wrong into the error of whoever is at fault, and end the session."""
        cpu_before = cpu_seconds(self._child.pid)
        try:
            return exchange()
        except ChannelDeadlineError as error:
            if starved(self._child.pid, cpu_before, seconds):
                self._end("the machine gave it no CPU")
                raise ZygoteError(f"hook {hook}: {seconds} s passed and the machine gave it hardly any CPU") from error
            raise self._fault(hook, f"no answer within {seconds} s ({error})") from error
        except FrameError as error:
            raise self._fault(hook, f"broke the protocol: {error}") from error
        except ChannelClosedError as error:
            raise self._gone(hook) from error
        except BaseException:  # an interrupt in mid-exchange: what follows on the socket belongs to no request
            self._end("a call was interrupted")
            raise

    def _gone(self, hook: str) -> EnvHarnessError:
        """The child is dead: of its own doing, or because its zygote died."""
        ended = self._end("its process is gone")
        if ended is None:
            return ZygoteError(f"hook {hook}: the sandbox's zygote is gone, and the hook process with it")
        reason = describe_end(ended, self._limits.cpu_seconds)
        self._closed_because = reason
        return HookFault(hook, reason)

    def _read_reply(self, hook: str, body: bytes) -> dict[str, Any]:
        try:
            decoded = orjson.loads(body)
        except orjson.JSONDecodeError as error:
            raise self._fault(hook, f"sent what is not JSON: {error}") from error
        reply = cast("dict[str, Any]", decoded) if isinstance(decoded, dict) else {}
        if len(reply) != 1:
            raise self._fault(hook, "sent a reply of no known form")
        if isinstance(reply.get("fault"), dict):
            fault: dict[str, Any] = reply["fault"]
            named = fault.get("hook")
            where = str(named) if named in (*HOOKS, LOAD) else hook
            raise self._fault(where, str(fault.get("reason")))
        return reply

    def _parse(self, hook: str, reply: dict[str, Any], key: str, model: type[_Model]) -> _Model:
        try:
            return model.model_validate(reply.get(key), strict=True)
        except (ValidationError, RecursionError) as error:
            place, problem = _first_problem(error)
            if place.startswith("observation") and FILTER_OBSERVATION in self.overridden:
                hook = FILTER_OBSERVATION  # it had the last word on this field
            raise self._fault(hook, f"returned a value of the wrong form: {place}: {problem}") from error

    def _fault(self, hook: str, reason: str) -> HookFault:
        self._end(f"hook {hook} failed earlier")
        return HookFault(hook, printable(reason[:REASON_CHARACTERS]))

    def _end(self, because: str) -> dict[str, Any] | None:
        """Kill, reap and close, once. How the process ended, {} when not known, None when the zygote is gone."""
        return self._leave(because, self._kill_and_reap) if self._closed_because is None else {}

    def _leave(self, because: str, kill: Callable[[], dict[str, Any] | None]) -> dict[str, Any] | None:
        self._closed_because = because
        self._channel.close()
        try:
            # A forked copy of the session ends nothing: the process belongs to the original.
            return kill() if os.getpid() == self._owner else {}
        finally:
            if self._child.pidfd is not None:
                os.close(self._child.pidfd)

    def _kill(self) -> dict[str, Any] | None:
        """Kill without waiting; the zygote reaps the process when the kernel is done with it."""
        if self._child.pidfd is None or sys.platform != "linux":
            return self._kill_and_reap()
        with contextlib.suppress(ProcessLookupError):  # it is dead and reaped already
            signal.pidfd_send_signal(self._child.pidfd, signal.SIGKILL)
        self._child.zygote.forget_child(self._child.ticket)
        return {}

    def _kill_and_reap(self) -> dict[str, Any] | None:
        pidfd = self._child.pidfd
        try:
            return self._child.zygote.end(self._child.ticket)
        except ZygoteError:
            # The kernel kills the orphan; a descriptor of it lets us make sure, whatever its number is now.
            if pidfd is not None and sys.platform == "linux":
                try:
                    signal.pidfd_send_signal(pidfd, signal.SIGKILL)
                except ProcessLookupError:
                    return None
                poll = select.poll()
                poll.register(pidfd, select.POLLIN)
                poll.poll(_DEATH_SECONDS * 1000)
            return None


def open_session(source: str, *, seed: int, limits: HookLimits | None = None, unsafe: bool = False) -> HookSession:
    """Start a hook process, confine it, and load `source` into it.

    `seed` begins the hook's random stream. With `unsafe` nothing but the process boundary and the deadlines stands
    between the source and this machine. Raises `HookFault("load", …)`, `ZygoteError` or `SandboxUnavailableError`.
    """
    limits = limits or HookLimits()
    if not hasattr(os, "fork") or (sys.platform != "linux" and not unsafe):
        raise SandboxUnavailableError(
            f"hook code can be confined on Linux only, and this is {sys.platform}; "
            "run there, or accept the risk with --unsafe-hooks"
        )
    session = HookSession(current_zygote().fork(limits, guarded=not unsafe), limits)
    try:
        session.begin(confined=not unsafe)
        session.load(source, seed)
    except BaseException:
        session.close()
        raise
    return session


def _to_json(value: object, place: str) -> bytes:
    try:
        return orjson.dumps(value)
    except TypeError as error:
        raise SpecError(f"not JSON, so no hook can see it: {error}", place=place) from error


def _first_problem(error: ValidationError | RecursionError) -> tuple[str, str]:
    """Where in the value, and what."""
    if isinstance(error, RecursionError):
        return "the value", "nested too deeply"
    place, message = first_problem(error)
    return place or "the value", message
