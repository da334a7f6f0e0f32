from __future__ import annotations

from enum import Enum
from typing import Literal

import pytest
from pydantic import BaseModel

from envharness.core.tool import Tool, ToolCallError
from envharness.core.types import EnvResponse, Observation


class Colour(Enum):
    RED = "red"
    BLUE = "blue"


class Point(BaseModel):
    x: int
    y: int = 0


class Paint(Tool):
    name = "paint"

    def invoke(
        self,
        title: str,
        count: int,
        width: float,
        mode: Literal["fast", "slow"] = "fast",
        colour: Colour = Colour.RED,
        points: list[Point] | None = None,
        dry: bool = False,
    ) -> EnvResponse:
        """Paint a picture
        over two lines.

        Not part of the summary.

        Args:
            title: what it is called,
                continued on a second line.
            count: how many
        """
        text = f"{title} {count!r} {width!r} {mode} {colour.value} {points} {dry}"
        return EnvResponse(observation=Observation(text=text))


def test_schema_comes_from_signature_and_docstring() -> None:
    schema = Paint().schema()
    assert schema.name == "paint"
    assert schema.description == "Paint a picture over two lines."
    properties = schema.parameters["properties"]
    assert isinstance(properties, dict)
    assert list(properties) == ["title", "count", "width", "mode", "colour", "points", "dry"]
    assert properties["title"] == {"type": "string", "description": "what it is called, continued on a second line."}
    assert properties["count"] == {"type": "integer", "description": "how many"}
    assert properties["mode"] == {"type": "string", "enum": ["fast", "slow"], "default": "fast"}
    assert schema.parameters["required"] == ["title", "count", "width"]
    assert schema.parameters["additionalProperties"] is False
    assert "Point" in str(schema.parameters["$defs"])


def test_call_passes_typed_values() -> None:
    response = Paint().call({"title": "t", "count": 2, "width": 1, "colour": "blue", "points": [{"x": 1}]})
    assert response.observation.text == "t 2 1.0 fast blue [Point(x=1, y=0)] False"


@pytest.mark.parametrize(
    ("kwargs", "message"),
    [
        ({}, "missing argument 'title'"),
        ({"title": "t", "count": "3", "width": 1}, "argument 'count'"),
        ({"title": "t", "count": 3, "width": 1, "depth": 1}, "unknown argument 'depth'"),
        ({"title": "t", "count": 3, "width": 1, "mode": "warp"}, "argument 'mode'"),
        ({"title": "t", "count": 3, "width": 1, "points": [{"y": 1}]}, "missing argument 'points.0.x'"),
    ],
)
def test_call_that_does_not_fit_says_what_is_wrong(kwargs: dict[str, object], message: str) -> None:
    with pytest.raises(ToolCallError, match=message):
        Paint().call(kwargs)  # pyright: ignore[reportArgumentType]  on purpose


def test_untyped_parameter_is_the_authors_error() -> None:
    class Bad(Tool):
        name = "bad"

        def invoke(self, x) -> EnvResponse:  # noqa: ANN001  # pyright: ignore[reportMissingParameterType, reportUnknownParameterType]
            """Do."""
            return EnvResponse(observation=Observation(text=str(x)))  # pyright: ignore[reportUnknownArgumentType]

    with pytest.raises(TypeError, match="needs a type"):
        Bad().schema()
