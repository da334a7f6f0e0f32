from __future__ import annotations

import asyncio
import random
from enum import Enum
from typing import Annotated, Literal

import pytest
from pydantic import BaseModel, Field, JsonValue

from envharness.bridges.toy24 import Toy24
from envharness.core.errors import ConfigError
from envharness.core.policy import Decision, PolicySpec, Turn
from envharness.core.tool import Tool
from envharness.core.types import EnvResponse, Observation, ToolSchema
from envharness.policies.random import RandomPolicy
from envharness.policies.sampling import sample, words_of


class Colour(Enum):
    RED = "red"
    BLUE = "blue"


class Point(BaseModel):
    x: Annotated[int, Field(ge=-3, le=3)]
    y: Annotated[float, Field(gt=0, lt=1)] = 0.5


class Everything(Tool):
    name = "everything"

    def invoke(
        self,
        title: Annotated[str, Field(min_length=3, max_length=5)],
        count: Annotated[int, Field(gt=2, lt=5)],
        free: int,
        low: Annotated[int, Field(ge=7)],
        high: Annotated[int, Field(le=-7)],
        width: float,
        points: Annotated[list[Point], Field(min_length=1, max_length=2)],
        mode: Literal["fast", "slow"] = "fast",
        colour: Colour | None = None,
        dry: bool = False,
    ) -> EnvResponse:
        """Take everything a schema can say."""
        self.taken.append((count, mode, dry))
        del title, free, low, high, width, points, colour
        return EnvResponse(observation=Observation(text="taken"))

    def __init__(self) -> None:
        self.taken: list[tuple[int, str, bool]] = []


def decide(policy: RandomPolicy, turn: Turn, turns: int = 1) -> list[Decision]:
    async def go() -> list[Decision]:
        return [await policy.act(turn) for _ in range(turns)]

    return asyncio.run(go())


def test_every_sample_is_accepted_by_the_tool_and_all_values_come_up() -> None:
    tool = Everything()
    rng = random.Random(3)
    for _ in range(300):
        sampled = sample(tool.schema().parameters, rng, ["a", "much too long"])
        assert isinstance(sampled, dict)
        tool.call(sampled)
    assert {count for count, _, _ in tool.taken} == {3, 4}
    assert {mode for _, mode, _ in tool.taken} == {"fast", "slow"}
    assert {dry for _, _, dry in tool.taken} == {True, False}


def test_a_schema_that_contains_itself_comes_to_an_end() -> None:
    tree: dict[str, JsonValue] = {
        "$defs": {
            "Tree": {
                "type": "object",
                "properties": {
                    "left": {"anyOf": [{"$ref": "#/$defs/Tree"}, {"type": "null"}]},
                    "all": {"type": "array", "items": {"$ref": "#/$defs/Tree"}},
                },
                "required": ["left"],
            }
        },
        "$ref": "#/$defs/Tree",
    }
    for seed in range(50):
        assert isinstance(sample(tree, random.Random(seed)), dict)


def test_admissible_commands_are_what_it_chooses_from() -> None:
    tool = ToolSchema(name="do", parameters={"properties": {"command": {"type": "string"}}, "required": ["command"]})
    observation = Observation(text="x", data={"admissible_commands": ["look", "go north"], "other": "no"})
    turn = Turn(observation=observation, tools=(tool,), step=0)
    chosen = {str(decision.action) for decision in decide(RandomPolicy(0), turn, 30)}
    assert len(chosen) == 2
    assert all("look" in action or "go north" in action for action in chosen)


def test_free_strings_are_taken_from_what_is_shown() -> None:
    assert words_of(Observation(text="a b a", data={})) == ["a", "b"]
    assert words_of(Observation(text="a b", data={"x": ["p", {"y": "q"}, 3], "z": "p"})) == ["p", "q"]


def test_it_plays_toy24_without_a_refused_call() -> None:
    env = Toy24(max_steps=40)
    shown = env.reset(0).observation
    policy = PolicySpec(id="random").build(4)
    tools = tuple(tool for tool in env.tool_schemas() if tool.name != "stop")

    async def go() -> list[EnvResponse]:
        responses: list[EnvResponse] = []
        observation = shown
        for step in range(40):
            decision = await policy.act(Turn(observation=observation, tools=tools, step=step))
            assert decision.action is not None
            responses.append(env.step(decision.action))
            observation = responses[-1].observation
            if responses[-1].terminated or responses[-1].truncated:
                break
        await policy.close()
        return responses

    responses = asyncio.run(go())
    assert not any("refused" in response.info for response in responses)
    assert any(not response.info.get("ineffective") for response in responses)


def test_the_seed_decides_and_the_global_generator_is_left_alone() -> None:
    turn = Turn(observation=Toy24(max_steps=3).reset(0).observation, tools=tuple(Toy24().tool_schemas()), step=0)
    before = random.getstate()
    assert decide(RandomPolicy(1), turn, 10) == decide(RandomPolicy(1), turn, 10)
    assert decide(RandomPolicy(1), turn, 10) != decide(RandomPolicy(2), turn, 10)
    assert random.getstate() == before


def test_the_chance_to_stop() -> None:
    turn = Turn(observation=Observation(text=""), tools=(), step=0)
    assert all(decision.stop for decision in decide(RandomPolicy(0, stop_chance=1.0), turn, 5))
    assert decide(RandomPolicy(0), turn, 5) == [Decision()] * 5
    with pytest.raises(ConfigError, match="stop_chance"):
        RandomPolicy(0, stop_chance=1.5)
