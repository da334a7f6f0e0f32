"""Stage: moves the start of an episode by replaying actions before the policy acts."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, ClassVar, Self, cast

from pydantic import JsonValue, TypeAdapter, ValidationError

from envharness.core.canonical import canonical_json, digest
from envharness.core.env import ActionableEnv
from envharness.core.errors import ReplayError, SpecError
from envharness.core.harness import EnvHarness
from envharness.core.messages import one_line
from envharness.core.trace import ComponentEvent
from envharness.core.types import Action, EnvResponse, JsonDict, ResetResponse

_Actions = TypeAdapter(list[Action])
_Fingerprints = TypeAdapter(dict[str, list[str]])


class Stage(EnvHarness):
    """Replays `actions` through the environment below after each reset, then hands over.

    The start is reachable by construction, and the replay is not charged to the policy. Raises ReplayError at reset,
    with the index of the action, where an action is refused, blocked, without effect, ends the episode, or leads to
    another state than it led to when the Stage was made.

    `fingerprints` maps a reset seed to one digest of the state per action. A seed that is absent is recorded at its
    first reset, saved with the Stage and told to the trace.
    """

    tag: ClassVar[str] = "stage"

    def __init__(
        self,
        inner: ActionableEnv,
        actions: Sequence[Action | Mapping[str, Any]],
        *,
        fingerprints: Mapping[str, Sequence[str]] | None = None,
    ) -> None:
        super().__init__(inner)
        self.actions = tuple(
            action if isinstance(action, Action) else Action.model_validate(action) for action in actions
        )
        self._fingerprints = {seed: list(digests) for seed, digests in (fingerprints or {}).items()}

    def reset(self, seed: int | None = None, options: JsonDict | None = None) -> ResetResponse:
        """Reset, replay, and show what is there then."""
        start = self.inner.reset(seed, options)
        expected = self._fingerprints.get(str(seed))
        reached: list[str] = []
        for index, action in enumerate(self.actions):
            response = self.inner.step(action.model_copy(update={"replayed": True}))
            _require_ordinary(index, action, response)
            reached.append(_fingerprint(self.inner))
            if expected is not None and (index >= len(expected) or expected[index] != reached[index]):
                raise ReplayError(index, f"{action} led to another state than when this Stage was made")
        if expected is None:
            self._record(str(seed), reached)
        self.inner.notify_replay_complete()
        return ResetResponse(observation=self.inner.observe(), info=start.info)

    def _record(self, seed: str, reached: list[str]) -> None:
        """Keep where the replay led, and tell the trace: the Stage itself is gone with its episode."""
        self._fingerprints[seed] = reached
        if reached:
            detail = canonical_json({seed: cast("JsonValue", reached)})
            self.sink.event(ComponentEvent(component=self.label, kind="recorded_start", detail=detail))

    def save_state(self) -> JsonDict:
        """Return the actions, and the fingerprints of the seeds seen."""
        state: JsonDict = {"actions": [action.model_dump(mode="json") for action in self.actions]}
        if self._fingerprints:
            state["fingerprints"] = cast("JsonDict", {seed: list(d) for seed, d in sorted(self._fingerprints.items())})
        return state

    @classmethod
    def from_state(cls, state: JsonDict, inner: ActionableEnv | None = None, **options: Any) -> Self:
        """Make a Stage from `{"actions": [...], "fingerprints"?: {seed: [...]}}`."""
        if inner is None or options:
            raise SpecError("a stage wraps one environment and takes no options")
        if unknown := sorted(state.keys() - {"actions", "fingerprints"}):
            raise SpecError(f"unknown key {unknown[0]!r} (known: actions, fingerprints)")
        if "actions" not in state:
            raise SpecError("missing key 'actions'")
        try:
            actions = _Actions.validate_python(state["actions"])
            fingerprints = _Fingerprints.validate_python(state.get("fingerprints", {}))
        except ValidationError as error:
            raise SpecError(f"actions and fingerprints: {one_line(error)}") from error
        return cls(inner, actions, fingerprints=fingerprints)


def _require_ordinary(index: int, action: Action, response: EnvResponse) -> None:
    for key in ("refused", "blocked"):
        if reason := response.info.get(key):
            raise ReplayError(index, f"{action} was {key}: {reason}")
    if response.info.get("ineffective"):
        raise ReplayError(index, f"{action} had no effect: {response.observation.text[:200]!r}")
    if response.terminated or response.truncated:
        raise ReplayError(index, f"{action} ended the episode")


def _fingerprint(env: ActionableEnv) -> str:
    """Digest the state without the keys that may differ between identical runs."""
    volatile = env.capabilities.volatile_state_keys
    state = {key: value for key, value in env.get_env_state().items() if key not in volatile}
    return digest(state, 16)
