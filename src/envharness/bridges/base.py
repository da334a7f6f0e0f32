"""The base of bridges: the order of calls, unknown tools and ill-typed arguments are handled here, once."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Sequence
from typing import Literal

from envharness.core.env import ActionableEnv
from envharness.core.errors import ConfigError, LifecycleError
from envharness.core.tool import Tool, ToolCallError
from envharness.core.types import Action, EnvResponse, JsonDict, Observation, ResetResponse, ToolSchema

Phase = Literal["new", "running", "ended", "closed"]


class Bridge(ActionableEnv):
    """An environment made of tools. A subclass defines `tools`, `_start`, `_look` and the verifier.

    It keeps the call order: a step before reset, after the end or after close is a LifecycleError that says which. A
    call that no tool understands changes nothing and comes back with `info["refused"]` and the current observation.
    """

    def __init__(self) -> None:
        self._phase: Phase = "new"

    @abstractmethod
    def tools(self) -> Sequence[Tool]:
        """Return the tools, the same ones in the same order at every call."""

    @abstractmethod
    def _start(self, seed: int | None, options: JsonDict) -> ResetResponse:
        """Start an episode."""

    @abstractmethod
    def _look(self) -> Observation:
        """Return the current observation; called between reset and close only."""

    def reset(self, seed: int | None = None, options: JsonDict | None = None) -> ResetResponse:
        """Start an episode; allowed at any time before close."""
        if self._phase == "closed":
            raise LifecycleError(f"{self._name}: reset after close; make a new environment")
        self._phase = "new"
        response = self._start(seed, dict(options or {}))
        self._phase = "running"
        return response

    def step(self, action: Action) -> EnvResponse:
        """Call one tool."""
        self._require("step", "running")
        tool = next((tool for tool in self.tools() if tool.name == action.name), None)
        if tool is None:
            known = ", ".join(tool.name for tool in self.tools())
            return self._refuse(f"there is no tool {action.name!r}; the tools are: {known}")
        try:
            response = tool.call(action.kwargs)
        except ToolCallError as error:
            return self._refuse(str(error))
        if response.terminated or response.truncated:
            self._phase = "ended"
        return response

    def observe(self) -> Observation:
        """Return the current observation again."""
        self._require("observe", "running", "ended")
        return self._look()

    def tool_schemas(self) -> list[ToolSchema]:
        """Return the schemas of the tools."""
        return [tool.schema() for tool in self.tools()]

    def close(self) -> None:
        """Release everything. Idempotent; a subclass releases in `_release`."""
        if self._phase != "closed":
            self._phase = "closed"
            self._release()

    def _release(self) -> None:
        """Release what the bridge holds; called once."""
        return

    @property
    def _name(self) -> str:
        return type(self).__name__.lower()

    def _require(self, call: str, *phases: Phase) -> None:
        """Raise LifecycleError unless the episode is in one of `phases`."""
        if self._phase in phases:
            return
        when = {
            "new": "before reset; call reset() first",
            "running": "while the episode runs",
            "ended": "after the end of the episode; call reset() to start another",
            "closed": "after close; make a new environment",
        }[self._phase]
        raise LifecycleError(f"{self._name}: {call} {when}")

    def _take_step_limit(self, options: JsonDict, default: int) -> int:
        """Take the reset option `max_steps` out of `options`, for a bridge that declares `step_limit_option`."""
        limit = options.pop("max_steps", default)
        if not isinstance(limit, int) or isinstance(limit, bool) or limit < 1:
            raise ConfigError(f"{self._name}: the reset option max_steps must be 1 or more, not {limit!r}")
        return limit

    def _require_all_taken(self, options: JsonDict) -> None:
        """Raise ConfigError where reset was given an option that nothing has taken."""
        if options:
            known = "max_steps" if self.capabilities.step_limit_option else "none"
            raise ConfigError(f"{self._name}: unknown reset option {min(options)!r} (known: {known})")

    def _refuse(self, reason: str) -> EnvResponse:
        """Answer a call that was not understood: nothing happened, and the policy learns why."""
        return EnvResponse(observation=self._look().below(reason), info={"refused": reason})
