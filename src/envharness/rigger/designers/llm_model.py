"""Which model a designer asks: its own, or the policy's."""

from __future__ import annotations

from pydantic import JsonValue, ValidationError
from pydantic_core import PydanticSerializationError

from envharness.core.errors import ConfigError
from envharness.core.messages import first_problem
from envharness.core.policy import PolicySpec
from envharness.llm.config import ModelConfig

MODEL_OPTION = "model"
"""The option of a policy that holds its model."""


def choose_model(designer: str, model: JsonValue, policy: PolicySpec | None) -> ModelConfig:
    """Return the model configured, or the policy's where none is. Raises ConfigError where neither is there."""
    if model is not None:
        return _parse(model, f"designer.options.{MODEL_OPTION}")
    own = policy.options.get(MODEL_OPTION) if policy is not None else None
    if own is None:
        name = policy.id if policy is not None else "none"
        raise ConfigError(
            f"designer {designer!r} asks a model, and the policy ({name}) has none that it could share; "
            "set designer.options.model"
        )
    return _parse(own, f"policy.options.{MODEL_OPTION}")


def policy_model(policy: PolicySpec) -> ModelConfig | None:
    """Return the model that a policy's options name, or None where they name none. Raises ConfigError."""
    own = policy.options.get(MODEL_OPTION)
    return None if own is None else _parse(own, f"policy.options.{MODEL_OPTION}")


def same_model(model: ModelConfig, policy: PolicySpec) -> bool:
    """Whether the policy plays with this model; how it samples does not matter."""
    other = policy_model(policy)
    if other is None:
        return False
    return (model.client, model.model, model.recording) == (other.client, other.model, other.recording)


def describe_model(model: ModelConfig) -> str:
    """Return a model's name for a reader."""
    return model.model if model.client == "openai" else f"{model.model} ({model.client})".strip()


def _parse(value: JsonValue, place: str) -> ModelConfig:
    try:
        model = ModelConfig.model_validate(value)
        model.model_dump_json()
    except PydanticSerializationError:
        raise ConfigError(f"{place}: a value holds half of a character (a lone surrogate)") from None
    except ValidationError as error:
        where, message = first_problem(error)
        # The value itself is left out: it could be a key that was pasted where a reference belongs.
        raise ConfigError(f"{'.'.join(filter(None, (place, where)))}: {message}") from None
    return model
