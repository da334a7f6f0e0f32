"""Chain: joins environments into one long episode, which is won where the verifiers of all required segments say so."""

from __future__ import annotations

import copy
from collections import deque
from collections.abc import Mapping, Sequence
from contextlib import ExitStack
from typing import Any, ClassVar, Self, cast

from pydantic import JsonValue

from envharness.components.chain_episode import ChainEpisode
from envharness.components.chain_options import ChainOptions
from envharness.components.handoff import Handoff
from envharness.components.joint_capabilities import joint_capabilities
from envharness.components.joint_verdict import joint_goal, joint_verdict
from envharness.components.routers import End, Router, Serial, Switch
from envharness.components.state_union import merged_schema, visited_segments, with_chain, without_chain
from envharness.components.tool_union import ToolClashes, ToolUnion
from envharness.core.env import ActionableEnv
from envharness.core.errors import LifecycleError, NotResumableError, SpecError
from envharness.core.harness import Component
from envharness.core.spec import ChainedNode, StackNode
from envharness.core.trace import ComponentEvent
from envharness.core.types import (
    Action,
    Capabilities,
    EnvResponse,
    EvaluationResult,
    JsonDict,
    Observation,
    ResetResponse,
    StepInfo,
    ToolSchema,
)


class Chain(Component):
    """Plays two or more environments as one episode with one step budget; `router` says which comes when.

    A segment is reset when it is first reached, with the seed and options of the chain's own reset. Its end ends the
    whole only where the router says so; its verdict is taken at that moment and kept. The episode is a success where
    every required segment is (see the routers), and its score is their mean, 0 for one never reached.

    `max_steps` bounds all steps together, refused ones included, replayed ones not; reaching it truncates. It replaces
    the own limit of each segment whose capabilities have `step_limit_option`; another segment that reaches its own
    limit is over there and then, and judged. None leaves the segments' own limits in force and adds none. `strict`
    requires every segment visited, even one that a branch would excuse. `handoff` shapes the observation at a change
    (see Handoff), `tool_clashes` what happens to tools of one name (see ToolUnion). Raises SpecError where these do
    not fit together.
    """

    tag: ClassVar[str] = "chain"

    def __init__(
        self,
        segments: Sequence[ActionableEnv],
        router: str | Mapping[str, Any] | Router = "serial",
        *,
        max_steps: int | None = None,
        strict: bool = False,
        handoff: Handoff | Mapping[str, Any] | None = None,
        tool_clashes: ToolClashes = "error",
    ) -> None:
        super().__init__()
        if len(segments) < 2:  # noqa: PLR2004  what makes a chain
            raise SpecError(f"a chain joins two or more environments, not {len(segments)}")
        if len({id(segment) for segment in segments}) < len(segments):
            raise SpecError("one environment object is in the chain twice; make one for each segment")
        given = {"router": router, "max_steps": max_steps, "strict": strict, "tool_clashes": tool_clashes}
        self.options = ChainOptions.of(given | ({} if handoff is None else {"handoff": handoff}))
        self.options.router.check(len(segments))
        self._segments = list(segments)
        self._episode: ChainEpisode | None = None
        self._closed = False
        self._tools = self._unite_tools()

    def reset(self, seed: int | None = None, options: JsonDict | None = None) -> ResetResponse:
        """Start with the first segment. The option `max_steps` sets the budget of this episode."""
        if self._closed:
            raise LifecycleError("chain: reset after close; make a new chain")
        options = dict(options or {})
        budget = options.pop("max_steps", self.options.max_steps)
        if budget is not None and (not isinstance(budget, int) or isinstance(budget, bool) or budget < 1):
            raise SpecError(f"the reset option max_steps must be a positive integer, not {budget!r}")
        recent: deque[str] = deque(maxlen=max(self.options.handoff.tail_steps, 1))
        episode = ChainEpisode(seed, options, budget, [None] * len(self._segments), recent)
        self._episode = None
        response = self._start(episode, 0)
        self._episode = episode
        self._tools = self._unite_tools()
        return response

    def step(self, action: Action) -> EnvResponse:
        """Execute one action in the segment it belongs to, then let the router decide."""
        episode = self._playing("step")
        if episode.ended:
            raise LifecycleError("chain: step after the end of the episode; call reset() to start another")
        if not action.replayed:
            episode.steps += 1
        episode.steps_here += 1
        route = self.options.router.before(action, episode.situation())
        segment = route.segment if isinstance(route, Switch) else episode.active
        entered: Observation | None = None
        if reason := self._misplaced(episode, action, segment):
            response = self._refused(reason)
        else:
            if segment != episode.active:
                entered = self._enter(episode, segment)
            response = self._act(episode, action)
        return self._settle(episode, action, response, entered)

    def observe(self) -> Observation:
        """Return the active segment's observation; after a change, the hand-off until the world changes again."""
        episode = self._playing("observe")
        return (
            self._segments[episode.active].observe() if episode.shown is None else episode.shown.model_copy(deep=True)
        )

    def evaluate(self) -> EvaluationResult:
        """Join the verdicts: those taken at a segment's end, and the verifiers' word on those under way."""
        episode = self._playing("evaluate")
        verdicts = [
            verdict if verdict is not None or index not in episode.visited else self._segments[index].evaluate()
            for index, verdict in enumerate(episode.verdicts)
        ]
        successes = [None if verdict is None else verdict.success for verdict in verdicts]
        required = self._required(episode.visited, successes)
        return joint_verdict([segment.task_id for segment in self._segments], verdicts, required)

    def step_reward(self, info: StepInfo) -> float:
        """Return the dense reward of the segment that executed the action; 0 for an action that led there first."""
        episode = self._playing("step_reward")
        segment, before = without_chain(info.state_before)
        if segment != episode.acted_in:
            return 0.0
        now_in, after = without_chain(info.state_after)
        if now_in != segment:
            after = self._segments[segment].get_env_state()
        inner = {"action": self._translated(info.action, segment), "state_before": before, "state_after": after}
        return self._segments[segment].step_reward(info.model_copy(update=inner))

    def notify_replay_complete(self) -> None:
        """Pass it on to the segments started, and give the active one its whole turn."""
        if self._episode is not None:
            self._episode.steps_here = 0
            for index in self._episode.visited:
                self._segments[index].notify_replay_complete()

    def resume(self) -> None:
        """Refuse: a boundary once crossed stays crossed."""
        raise NotResumableError("a chain cannot take back a termination; put the component that does inside a segment")

    def close(self) -> None:
        """Close every segment, started or not, even where closing one fails."""
        self._closed = True
        with ExitStack() as stack:
            for segment in reversed(self._segments):
                stack.callback(segment.close)

    @property
    def capabilities(self) -> Capabilities:
        """What all segments can do. The middle of an episode is not saved, and no termination is taken back."""
        return joint_capabilities([segment.capabilities for segment in self._segments])

    @property
    def task_id(self) -> str:
        """Return the segments' tasks, joined."""
        return " + ".join(segment.task_id for segment in self._segments)

    def list_tasks(self) -> list[str]:
        """Return the one task that this chain is."""
        return [self.task_id]

    def tool_schemas(self) -> list[ToolSchema]:
        """Return the tools of all segments, the same ones at every moment of the episode."""
        self._tools = self._unite_tools()
        return [schema.model_copy(deep=True) for schema in self._tools.schemas]

    def get_env_state(self) -> JsonDict:
        """Return the active segment's state with the key `chain`. No verdict is in it."""
        episode = self._playing("get_env_state")
        state = self._segments[episode.active].get_env_state()
        return with_chain(state, segment=episode.active, segments=len(self._segments), visited=episode.visited)

    def env_state_schema(self) -> str:
        """Return the segments' descriptions as one; a key that not all of them have is optional."""
        return merged_schema([segment.env_state_schema() for segment in self._segments])

    def reference_solution(self) -> list[Action] | None:
        """Return the segments' solutions one after the other; None unless the chain is serial and all have one.

        A segment not started yet gives its solution for the default seed.
        """
        solutions = [segment.reference_solution() for segment in self._segments]
        if not isinstance(self.options.router, Serial) or None in solutions:
            return None
        return [
            action.model_copy(update={"name": self._tools.offered_name(action.name, index)})
            for index, solution in enumerate(solutions)
            for action in solution or ()
        ]

    def goal_reached(self, state: JsonDict) -> bool | None:
        """Say what the active segment's part of `state` says of the whole: its goal alone is to be seen there.

        None where the verdict depends on segments that were left: their part of the state is gone.
        """
        active, inner = without_chain(state)
        visited = visited_segments(state)
        known: list[bool | None] = [None if index in visited else False for index in range(len(self._segments))]
        known[active] = self._segments[active].goal_reached(inner)
        return joint_goal(known, lambda successes: self._required(visited, successes), visited)

    def save_state(self) -> JsonDict:
        """Return the options, without the segments."""
        return self.options.model_dump(mode="json")

    @classmethod
    def from_state(cls, state: JsonDict, segments: Sequence[ActionableEnv] | None = None, **options: Any) -> Self:
        """Make a Chain of `segments` from what `save_state` returned. Keys left out have their defaults."""
        if segments is None or options:
            raise SpecError("a chain joins segments and takes no options beside its state")
        known = ChainOptions.of(state)
        return cls(
            segments,
            known.router,
            max_steps=known.max_steps,
            strict=known.strict,
            handoff=known.handoff,
            tool_clashes=known.tool_clashes,
        )

    @property
    def node(self) -> StackNode:
        """This chain and its segments, as data."""
        nodes = tuple(segment.node for segment in self._segments)
        return ChainedNode(component=self.tag, state=self.save_state(), segments=nodes)

    def children(self) -> tuple[ActionableEnv, ...]:
        """Return the segments."""
        return tuple(self._segments)

    def replace_child(self, index: int, env: ActionableEnv) -> None:
        """Put `env` in the place of segment `index`."""
        if not 0 <= index < len(self._segments):
            raise IndexError(f"chain has segments 0 to {len(self._segments) - 1}, not {index}")
        self._segments[index] = env

    def _required(self, visited: Sequence[int], successes: Sequence[bool | None]) -> frozenset[int]:
        required = self.options.router.required(visited, successes)
        return required | frozenset(visited) if self.options.strict else required

    def _misplaced(self, episode: ChainEpisode, action: Action, segment: int) -> str:
        """Say why `segment` cannot take the action; empty where it can, or where only the segment itself can tell."""
        here = f"you are on task {episode.active + 1} of {len(self._segments)}"
        if episode.verdicts[segment] is not None:
            return f"task {segment + 1} is over; {here}"
        owners = self._tools.owners(action.name)
        if segment in owners or not (owners or self._tools.is_renamed(action.name)):
            return ""
        where = f"belongs to task {' and '.join(str(owner + 1) for owner in owners)}" if owners else "is ambiguous"
        return f"{action.name!r} {where}; {here}, whose tools are: {', '.join(self._tools.of_segment(episode.active))}"

    def _refused(self, reason: str) -> EnvResponse:
        return EnvResponse(observation=self.observe().below(reason), info={"refused": reason})

    def _act(self, episode: ChainEpisode, action: Action) -> EnvResponse:
        response = self._segments[episode.active].step(self._translated(action, episode.active))
        episode.acted_in = episode.active
        return response

    def _translated(self, action: Action, segment: int) -> Action:
        name = self._tools.inner_name(action.name, segment) or action.name
        return action if name == action.name else action.model_copy(update={"name": name})

    def _settle(
        self, episode: ChainEpisode, action: Action, response: EnvResponse, entered: Observation | None
    ) -> EnvResponse:
        """Judge a segment that is over, follow the router, and mask what concerns the segment alone."""
        left = episode.active
        over = response.terminated or response.truncated
        if over:
            episode.verdicts[left] = self._segments[left].evaluate()
        executed = not (response.info.get("refused") or response.info.get("blocked"))
        episode.recent.append(response.observation.text)
        route = self.options.router.after(action if executed else None, episode.situation())
        shown = response.observation
        if isinstance(route, Switch) and not episode.spent:
            shown = self._enter(episode, route.segment)
        handed_over = entered is not None or episode.active != left
        if entered is not None:
            shown = _joined(entered, shown)
        if handed_over:
            episode.shown = shown
        elif executed:
            episode.shown = None
        ended = isinstance(route, End)
        episode.ended = ended or episode.spent
        if not (over or handed_over or episode.spent):
            return response
        changes: JsonDict = {"segment": left, "over": over, "active": episode.active}
        return EnvResponse(
            observation=shown.model_copy(deep=True),
            reward=response.reward,
            terminated=ended and response.terminated,
            truncated=response.truncated if ended else episode.spent,
            info={**response.info, "chain": cast("JsonValue", changes)} if over or handed_over else response.info,
        )

    def _start(self, episode: ChainEpisode, segment: int) -> ResetResponse:
        env = self._segments[segment]
        options = copy.deepcopy(episode.options)
        if episode.max_steps is not None and env.capabilities.step_limit_option:
            options["max_steps"] = episode.max_steps
        response = env.reset(episode.seed, options)
        episode.visited.append(segment)
        episode.recent.clear()
        episode.recent.append(response.observation.text)
        return response

    def _enter(self, episode: ChainEpisode, segment: int) -> Observation:
        """Make `segment` the active one, resetting it on its first visit; return what the policy is shown of that."""
        left, returning, tail = episode.active, segment in episode.visited, tuple(episode.recent)
        if returning:
            current = self._segments[segment].observe()
            episode.recent.clear()
            episode.recent.append(current.text)
        else:
            current = self._start(episode, segment).observation
        episode.active = segment
        episode.steps_here = 0
        self._tools = self._unite_tools()
        verdict = episode.verdicts[left]
        why = "left" if verdict is None else "won" if verdict.success else "lost"
        detail = f"segment {left} -> {segment} ({left} was {why})"
        self.sink.event(ComponentEvent(component=self.label, kind="switched_segment", detail=detail))
        return self.options.handoff.compose(
            current,
            last=left,
            following=segment,
            count=len(self._segments),
            returning=returning,
            recent=tail,
        )

    def _unite_tools(self) -> ToolUnion:
        return ToolUnion([segment.tool_schemas() for segment in self._segments], self.options.tool_clashes)

    def _playing(self, call: str) -> ChainEpisode:
        if self._closed:
            raise LifecycleError(f"chain: {call} after close; make a new chain")
        if self._episode is None:
            raise LifecycleError(f"chain: {call} before reset; call reset() first")
        return self._episode


def _joined(first: Observation, second: Observation) -> Observation:
    carried = {key: value for key, value in first.data.items() if key == "handoff"}
    return Observation(text=f"{first.text}\n\n{second.text}", data={**carried, **second.data})
