"""Which model a designer asks: its own, or the policy's."""

from __future__ import annotations

from pydantic import JsonValue, ValidationError
from pydantic_core import PydanticSerializationError

from envharness.core.errors import ConfigError
from envharness.core.messages import first_problem
from envharness.core.policy import PolicySpec
from envharness.llm.chat import Sampling
from envharness.llm.config import ModelConfig

MODEL_OPTION = "model"
"""The option of a policy that holds its model."""


def read_sampling(value: JsonValue) -> Sampling:
    """Return the designer's own sampling; what it leaves open is the model's. Raises ConfigError."""
    try:
        sampling = Sampling.model_validate({} if value is None else value)
        sampling.model_dump_json()
    except PydanticSerializationError:
        raise ConfigError("designer.options.sampling: a value holds half of a character (a lone surrogate)") from None
    except ValidationError as error:
        where, message = first_problem(error)
        raise ConfigError(
            f"{'.'.join(filter(None, ('designer.options.sampling', where)))}: {message} "
            f"(it takes {', '.join(Sampling.model_fields)})"
        ) from None
    return sampling


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


def require_prices(policy: PolicySpec, designer: ModelConfig | None) -> None:
    """Raise ConfigError where a budget of money could never be spent, because a model asked has no prices."""
    for role, model in (("policy", policy_model(policy)), ("designer", designer)):
        source = model.record_from or model if model is not None else None
        if source is not None and source.client in {"openai", "litellm"} and "prices" not in source.model_fields_set:
            raise ConfigError(
                f"budget.money: the {role}'s model ({source.model}) has no prices, so nothing would ever be counted; "
                f"set them (prices: {{prompt: 0}} for one that costs nothing), or budget.tokens"
            )


def describe_model(model: ModelConfig) -> str:
    """Return a model's name for a reader."""
    if model.client == "openai":
        return model.model
    name = model.record_from.model if model.record_from is not None else model.model
    return f"{name} ({model.client})" if name else model.client


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
