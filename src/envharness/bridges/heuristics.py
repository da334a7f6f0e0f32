"""What the heuristic policies that come with bridges share: weaknesses as options, each with a strength."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Any, TypeVar

from pydantic import BaseModel, Field, ValidationError

from envharness.core.errors import ConfigError
from envharness.core.messages import first_problem

Strength = Annotated[float, Field(ge=0.0, le=1.0)]
"""0 is no weakness at all, 1 is the most of it."""

Model = TypeVar("Model", bound=BaseModel)


def read_weaknesses(policy: str, model: type[Model], options: Mapping[str, Any]) -> Model:
    """Return the options of `policy` as its weaknesses. Raises ConfigError naming the option that is wrong."""
    try:
        return model.model_validate(options)
    except ValidationError as error:
        option, message = first_problem(error)
        known = ", ".join(model.model_fields)
        raise ConfigError(f"policy {policy}: option {option!r}: {message} (options: {known})") from error
