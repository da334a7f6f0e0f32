"""Contract: rewrites which actions are allowed, what they do and what is seen, by hooks that run in the sandbox."""

from __future__ import annotations

from typing import Any, ClassVar, Self

from envharness.core.env import ActionableEnv
from envharness.core.errors import LifecycleError, SpecError
from envharness.core.harness import EnvHarness
from envharness.core.trace import ComponentEvent, EventKind
from envharness.core.types import (
    Action,
    Blocked,
    Capabilities,
    EnvResponse,
    JsonDict,
    Observation,
    ResetResponse,
)
from envharness.sandbox import HookLimits, HookSession, open_session

AFTER = frozenset({"modify_transition", "filter_observation"})


class Contract(EnvHarness):
    """Runs the hooks of `source` around the environment below, in a process of their own, one an episode.

    `filter_action` sees the state before the action; `modify_transition` and `filter_observation` the state after it.
    Hooks propose; this class, in the parent, decides: the reward and `info` are always the environment's, a truncation
    is never taken back, a termination only where the bridge is resumable. What was overruled is recorded as violation.

    `seed` fixes the hooks' random stream: the same in every rollout, so that difficulty comes from the policy and not
    from dice. `limits` are the caller's and no part of the saved state: a file cannot grant itself more time or memory.
    Raises HookFault from reset, step and observe where the hooks fail.
    """

    tag: ClassVar[str] = "contract"

    def __init__(self, inner: ActionableEnv, source: str, *, seed: int = 0, limits: HookLimits | None = None) -> None:
        super().__init__(inner)
        self.source = source
        self.seed = seed
        self.limits = limits or HookLimits()
        self.unsafe_hooks = False
        """Set by an engine whose user asked to run hooks unconfined; never read from a file."""
        self._session: HookSession | None = None
        self._shown: Observation | None = None
        self._ended = False

    # --- the episode -------------------------------------------------------------------------------------------------

    def reset(self, seed: int | None = None, options: JsonDict | None = None) -> ResetResponse:
        """Start fresh hooks and an episode, and filter its first observation."""
        self._close_session()
        session = open_session(self.source, seed=self.seed, limits=self.limits, unsafe=self.unsafe_hooks)
        self._session = session
        response = self.inner.reset(seed, options)
        observation = response.observation
        if "filter_observation" in session.overridden:
            observation = session.filter_observation(observation, self.inner.get_env_state())
            self._note_change(response.observation, observation, "filter_observation")
        self._shown = observation
        self._ended = False
        return ResetResponse(observation=observation, info=response.info)

    def step(self, action: Action) -> EnvResponse:
        """Filter the action, execute it unless blocked, and rewrite what comes back."""
        session, shown = self._running()
        if "filter_action" in session.overridden:
            verdict = session.filter_action(action, self.inner.get_env_state())
            if isinstance(verdict, Blocked):
                self._event("blocked", "filter_action", verdict.reason)
                # The environment is untouched, so what is shown already is still the current observation.
                return EnvResponse(observation=shown.below(verdict.reason), info={"blocked": verdict.reason})
            action = self._rewritten(action, verdict)
        response = self.inner.step(action)
        if not_executed := response.info.get("refused") or response.info.get("blocked"):
            # Nothing happened below, so no hook runs; the observation must not slip past f_O all the same.
            return response.model_copy(update={"observation": shown.below(str(not_executed))})
        if AFTER & session.overridden:
            proposed = session.after_transition(action, response, self.inner.get_env_state())
            response = self._admit(response, proposed, "+".join(sorted(AFTER & session.overridden)))
        self._shown = response.observation
        self._ended = response.terminated or response.truncated
        return response

    def observe(self) -> Observation:
        """Return the filtered observation of the last transition again; no hook runs."""
        if self._shown is None:
            raise LifecycleError("contract: observe before reset; call reset() first")
        return self._shown.model_copy(deep=True)

    def notify_replay_complete(self) -> None:
        """Let the hooks' extras start afresh: what a Stage above replayed is not the policy's doing."""
        if self._session is not None:
            self._session.restart_extras()
        self.inner.notify_replay_complete()

    def resume(self) -> None:
        """Take back a termination below."""
        self.inner.resume()
        self._ended = False

    def close(self) -> None:
        """End the hook process and close what is below."""
        self._close_session()
        self.inner.close()

    # --- what it says about itself -----------------------------------------------------------------------------------

    @property
    def capabilities(self) -> Capabilities:
        """As below, but the middle of an episode cannot be saved: the hooks' memory lives in their process."""
        return self.inner.capabilities.model_copy(update={"state": "episode_boundary"})

    def save_state(self) -> JsonDict:
        """Return source and seed."""
        return {"source": self.source, "seed": self.seed}

    @classmethod
    def from_state(cls, state: JsonDict, inner: ActionableEnv | None = None, **options: Any) -> Self:
        """Make a Contract from `{"source": str, "seed"?: int}`."""
        if inner is None or options:
            raise SpecError("a contract wraps one environment and takes no options")
        if unknown := sorted(state.keys() - {"source", "seed"}):
            raise SpecError(f"unknown key {unknown[0]!r} (known: source, seed)")
        source, seed = state.get("source"), state.get("seed", 0)
        if not isinstance(source, str):
            raise SpecError("'source' must be Python source text")
        if not isinstance(seed, int) or isinstance(seed, bool):
            raise SpecError(f"'seed' must be an integer, not {seed!r}")
        return cls(inner, source, seed=seed)

    # --- the parent's judgement on what hooks propose ----------------------------------------------------------------

    def _rewritten(self, asked: Action, proposed: Action) -> Action:
        action = proposed.model_copy(update={"replayed": asked.replayed})
        if action != asked:
            self._event("rewrote_action", "filter_action", f"{asked} -> {action}")
        return action

    def _admit(self, real: EnvResponse, proposed: EnvResponse, hook: str) -> EnvResponse:
        """Take from a proposal what a Contract may decide, and record the rest as violations."""
        if proposed.reward != real.reward:
            self._event("violation", hook, f"reward {proposed.reward} discarded; it stays {real.reward}")
        if proposed.info != real.info:
            self._event("violation", hook, "changes to info discarded")
        self._note_change(real.observation, proposed.observation, hook)
        truncated = real.truncated or proposed.truncated
        if real.truncated and not proposed.truncated:
            self._event("violation", hook, "a truncation cannot be taken back")
        terminated = self._admit_termination(real, proposed, hook)
        if (terminated and not real.terminated) or (truncated and not real.truncated):
            self._event("ended_episode", hook)
        return EnvResponse(
            observation=proposed.observation,
            reward=real.reward,
            terminated=terminated,
            truncated=truncated,
            info=real.info,
        )

    def _admit_termination(self, real: EnvResponse, proposed: EnvResponse, hook: str) -> bool:
        if proposed.terminated or not real.terminated:
            return proposed.terminated
        if self.inner.capabilities.resumable and not real.truncated:
            self.inner.resume()
            self._event("resumed_episode", hook)
            return False
        self._event("violation", hook, "the termination stands: this environment is not resumable")
        return True

    def _note_change(self, before: Observation, after: Observation, hook: str) -> None:
        if before != after:
            self._event("changed_observation", hook)

    def _event(self, kind: EventKind, hook: str, detail: str = "") -> None:
        self.sink.event(ComponentEvent(component=self.label, kind=kind, hook=hook, detail=detail))

    def _running(self) -> tuple[HookSession, Observation]:
        if self._session is None or self._shown is None:
            raise LifecycleError("contract: step before reset; call reset() first")
        if self._ended:
            raise LifecycleError("contract: step after the end of the episode; call reset() to start another")
        return self._session, self._shown

    def _close_session(self) -> None:
        if self._session is not None:
            self._session.close()
            self._session = None
        self._shown = None
