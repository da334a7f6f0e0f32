"""Conformance checks on the interface: state view, tools, refusals, rewards, tasks and the order of calls."""

from __future__ import annotations

import copy
import json
import math
import re
from collections.abc import Iterator
from typing import Any

from envharness.core.errors import LifecycleError
from envharness.core.seeding import stream
from envharness.core.state_schema import state_violations
from envharness.core.types import Action, EnvResponse, JsonDict, StepInfo, ToolSchema
from envharness.policies.random import random_action
from envharness.testing.conformance_subject import Subject, fail

_TOOL_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_-]{0,63}")
"""What model providers accept as the name of a function."""
_TYPING_KEYS = {"type", "enum", "const", "anyOf", "oneOf", "allOf", "$ref"}


def state_matches_schema(subject: Subject) -> str:
    """The state keeps to its description at the start and after each step."""
    with subject.fresh() as env:
        subject.start(env)
        moments = [env.get_env_state()]
        for action in subject.actions:
            env.step(action)
            moments.append(env.get_env_state())
        for index, state in enumerate(moments):
            if problems := state_violations(env.env_state_schema(), state):
                fail(f"after {index} steps: {'; '.join(problems)}")
    return f"the state keeps to env_state_schema() at {len(moments)} moments"


def state_is_json(subject: Subject) -> str:
    """The state is JSON: it comes back from text as it was."""
    with subject.fresh() as env:
        subject.start(env)
        for state in [env.get_env_state(), *(_state_after(env, action) for action in subject.opening)]:
            try:
                back: Any = json.loads(json.dumps(state, allow_nan=False))
            except (TypeError, ValueError) as error:
                fail(f"the state is not JSON: {error}")
            if back != state:
                wrong = sorted(str(key) for key in state if key not in back or back[key] != state[key])
                fail(f"the state changes on its way through JSON (tuples, keys that are no text): {', '.join(wrong)}")
    return "the state comes back from JSON as it was"


def _state_after(env: Any, action: Action) -> JsonDict:
    env.step(action)
    return env.get_env_state()


def state_is_a_copy(subject: Subject) -> str:
    """Writing to a state that was handed out changes nothing."""
    with subject.fresh() as env:
        subject.start(env)
        subject.play(env, subject.opening)
        taken = env.get_env_state()
        kept = copy.deepcopy(taken)
        _deface(taken)
        now = env.get_env_state()
        volatile = subject.capabilities.volatile_state_keys
        if spoilt := sorted(k for k in kept.keys() | now.keys() if k not in volatile and kept.get(k) != now.get(k)):
            fail(f"writing to the result of get_env_state() changed {', '.join(map(repr, spoilt))}; return a copy")
    return "writing to the state that was returned changes nothing"


def _deface(value: Any) -> None:
    """Change everything that can be changed, innermost first."""
    if isinstance(value, dict):
        for item in list(value.values()):  # pyright: ignore[reportUnknownVariableType, reportUnknownArgumentType]  any JSON
            _deface(item)
        value.clear()  # pyright: ignore[reportUnknownMemberType]  any JSON
    elif isinstance(value, list):
        for item in value:  # pyright: ignore[reportUnknownVariableType]  any JSON
            _deface(item)
        value.append("defaced")  # pyright: ignore[reportUnknownMemberType]  any JSON


def volatile_keys_exist(subject: Subject) -> str:
    """Every key that is declared volatile is a key of the state."""
    with subject.fresh() as env:
        subject.start(env)
        state = env.get_env_state()
    if unknown := sorted(set(subject.capabilities.volatile_state_keys) - state.keys()):
        fail(f"declared volatile but not in the state: {', '.join(unknown)}")
    return f"{len(subject.capabilities.volatile_state_keys)} volatile keys are declared, all of them in the state"


def tool_schemas(subject: Subject) -> str:
    """The tools are what a model provider accepts, and stay the same through the episode."""
    with subject.fresh() as env:
        subject.start(env)
        tools = env.tool_schemas()
        subject.play(env, subject.opening)
        if env.tool_schemas() != tools:
            fail("tool_schemas() changed in the course of an episode")
    if not tools:
        fail("there is no tool")
    names = [tool.name for tool in tools]
    if twice := sorted({name for name in names if names.count(name) > 1}):
        fail(f"two tools are called {twice[0]!r}")
    for tool in tools:
        _require_sound(tool)
    return f"{len(tools)} sound tools: {', '.join(names)}"


def _require_sound(tool: ToolSchema) -> None:
    if not _TOOL_NAME.fullmatch(tool.name):
        fail(f"tool name {tool.name!r}: model providers accept 1 to 64 letters, digits, _ and - only")
    if not tool.description.strip():
        fail(f"tool {tool.name!r} has no description")
    parameters = tool.parameters
    properties, required = parameters.get("properties"), parameters.get("required", [])
    if parameters.get("type") != "object" or not isinstance(properties, dict):
        fail(f"tool {tool.name!r}: parameters must be a JSON schema of type object with properties")
    for name, schema in properties.items():
        if not isinstance(schema, dict) or not _TYPING_KEYS & schema.keys():
            fail(f"tool {tool.name!r}: parameter {name!r} has no type")
    if not isinstance(required, list) or not all(name in properties for name in required):
        fail(f"tool {tool.name!r}: required names a parameter that is not there")


def unknown_tool_refused(subject: Subject) -> str:
    """A tool that is not there is refused, and nothing happens."""
    _require_refusal(subject, Action(name="no_such_tool_of_any_environment"))
    return "a call of an unknown tool is refused and changes nothing"


def ill_typed_call_refused(subject: Subject) -> str:
    """Arguments that do not fit are refused, and nothing happens."""
    with subject.fresh() as env:
        shown = env.reset(subject.seed).observation
        tools = env.tool_schemas()
    rng = stream(subject.seed, "conformance", "arguments")
    bad = [action for tool in tools for action in _ill_typed(tool, random_action([tool], shown, rng))]
    for action in bad:
        _require_refusal(subject, action)
    return f"{len(bad)} calls with a missing, unknown or ill-typed argument are refused and change nothing"


def _ill_typed(tool: ToolSchema, good: Action) -> Iterator[Action]:
    """Spoil a good call in every way that the tool's schema certainly forbids."""
    if tool.parameters.get("additionalProperties") is False:
        yield good.model_copy(update={"kwargs": {**good.kwargs, "no_such_argument": 1}})
    properties: Any = tool.parameters.get("properties", {})
    required: Any = tool.parameters.get("required", [])
    for name in required:
        yield good.model_copy(update={"kwargs": {key: value for key, value in good.kwargs.items() if key != name}})
    for name, schema in properties.items():
        if schema.get("type") in {"string", "integer", "number", "boolean", "array"}:
            yield good.model_copy(update={"kwargs": {**good.kwargs, name: {"of": ["the", "wrong", "type"]}}})


def _require_refusal(subject: Subject, action: Action) -> None:
    spelt = f"{action.name}({', '.join(sorted(action.kwargs))})"
    with subject.fresh() as env:
        before = subject.start(env).state
        response = env.step(action)
        if not isinstance(response.info.get("refused"), str) or not response.info["refused"]:
            fail(f"{spelt} was not refused: info['refused'] must say why")
        if response.terminated or response.truncated:
            fail(f"{spelt} was refused and ended the episode")
        if subject.state(env) != before:
            fail(f"{spelt} was refused and changed the state")


def rewards_are_numbers(subject: Subject) -> str:
    """Rewards, dense rewards and scores are finite."""
    with subject.fresh() as env:
        env.reset(subject.seed)
        for index, action in enumerate(subject.actions):
            before = env.get_env_state()
            response = env.step(action)
            after = env.get_env_state()
            dense = env.step_reward(_step_info(action, response, before, after, index))
            for name, value in (("reward", response.reward), ("step_reward", dense)):
                if not math.isfinite(value):
                    fail(f"step {index}: {name} is {value}")
        score = env.evaluate().score
        if not 0.0 <= score <= 1.0:
            fail(f"the score {score} is outside of [0, 1]")
    return f"rewards of {len(subject.actions)} steps and the score are finite numbers"


def _step_info(action: Action, response: EnvResponse, before: JsonDict, after: JsonDict, step: int) -> StepInfo:
    # Not validated: whether the state is JSON is another check's business.
    return StepInfo.model_construct(action=action, response=response, state_before=before, state_after=after, step=step)


def tasks_are_listed(subject: Subject) -> str:
    """The task has a name, and the tasks are listed in order, each once."""
    with subject.fresh() as env:
        task, tasks = env.task_id, env.list_tasks()
    if not task:
        fail("task_id is empty")
    if tasks != sorted(set(tasks)):
        fail("list_tasks() is not sorted, or lists a task twice")
    return f"{len(tasks)} tasks are listed in order"


def step_before_reset(subject: Subject) -> str:
    """A step before reset is a LifecycleError."""
    action = subject.actions[0]
    with subject.fresh() as env:
        try:
            env.step(action)
        except LifecycleError as error:
            return f"it says: {error}"
    return fail("a step before reset was accepted; raise LifecycleError")


def step_after_end(subject: Subject) -> str:
    """A step after the end of the episode is a LifecycleError."""
    action = subject.actions[0]
    with subject.fresh() as env:
        subject.ended(env)
        env.observe()
        env.evaluate()
        try:
            env.step(action)
        except LifecycleError as error:
            return f"it says: {error}"
    return fail("a step after the end was accepted; raise LifecycleError")


def close_twice(subject: Subject) -> str:
    """`close` may be called twice; a step or reset after it is a LifecycleError."""
    action = subject.actions[0]
    with subject.fresh() as env:
        subject.start(env)
        env.close()
        env.close()
        for name, call in (("step", lambda: env.step(action)), ("reset", lambda: env.reset(subject.seed))):
            try:
                call()
            except LifecycleError:
                continue
            fail(f"a {name} after close was accepted; raise LifecycleError")
    return "close() was called twice; what came after it was refused"
