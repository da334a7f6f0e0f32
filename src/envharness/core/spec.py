"""A stack as data: a tree of environment, wrapped and chained nodes, in versioned JSON, and back to a live stack."""

from __future__ import annotations

from contextlib import ExitStack
from typing import TYPE_CHECKING, Annotated, Any, Literal, TypeVar, cast

import orjson
from pydantic import BaseModel, ConfigDict, Field, JsonValue, ValidationError

from envharness.core.errors import PluginError, SchemaVersionError, SpecError, UnknownIdError
from envharness.core.messages import first_problem, one_line
from envharness.core.registry import Kind, load

if TYPE_CHECKING:
    from envharness.core.env import ActionableEnv

SCHEMA_VERSION = 2
MAX_DEPTH = 64
"""Components one above the other. A deeper file is a mistake or an attack."""

_OLDER_TAGS = {"setup": "stage", "rules": "contract"}


class EnvironmentNode(BaseModel):
    """A bridge: its id, its constructor's options, and a snapshot to go on from (None: start at reset)."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    kind: Literal["environment"] = "environment"
    id: str
    options: dict[str, JsonValue] = Field(default_factory=dict)
    state: dict[str, JsonValue] | None = None


class WrappedNode(BaseModel):
    """A component around one environment."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    kind: Literal["wrapped"] = "wrapped"
    component: str
    state: dict[str, JsonValue] = Field(default_factory=dict)
    inner: StackNode


class ChainedNode(BaseModel):
    """A component that joins two or more environments."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    kind: Literal["chained"] = "chained"
    component: str = "chain"
    state: dict[str, JsonValue] = Field(default_factory=dict)
    segments: tuple[StackNode, ...] = Field(min_length=2)


StackNode = Annotated[EnvironmentNode | WrappedNode | ChainedNode, Field(discriminator="kind")]
_Model = TypeVar("_Model", bound=BaseModel)
_KINDS: dict[str, type[EnvironmentNode | WrappedNode | ChainedNode]] = {
    "environment": EnvironmentNode,
    "wrapped": WrappedNode,
    "chained": ChainedNode,
}


class StackSpec(BaseModel):
    """A stack: the only form in which engines and files take one."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    schema_version: Literal[2] = SCHEMA_VERSION
    stack: StackNode

    @classmethod
    def environment(cls, id: str, **options: Any) -> StackSpec:  # noqa: A002  the word the files use
        """Return the stack that is a bare environment."""
        node = {"kind": "environment", "id": id, "options": options}
        return cls.from_data({"schema_version": SCHEMA_VERSION, "stack": node})

    def wrap(self, component: str, **state: Any) -> StackSpec:
        """Return this stack with one more component around it."""
        node = {"kind": "wrapped", "component": component, "state": state, "inner": self.stack.model_dump(mode="json")}
        return StackSpec.from_data({"schema_version": SCHEMA_VERSION, "stack": node})

    def to_json(self) -> bytes:
        """Serialize with sorted keys, so that equal stacks are equal bytes."""
        return orjson.dumps(self.model_dump(mode="json"), option=orjson.OPT_SORT_KEYS | orjson.OPT_INDENT_2) + b"\n"

    @classmethod
    def from_json(cls, text: bytes | str) -> StackSpec:
        """Parse a stack, of this schema or of the older checkpoint form. Raises SpecError naming the place."""
        try:
            data = orjson.loads(text)
        except orjson.JSONDecodeError as error:
            raise SpecError(f"not JSON: {error}") from error
        return cls.from_data(data)

    @classmethod
    def from_data(cls, data: object) -> StackSpec:
        """Like `from_json`, from decoded JSON."""
        if not isinstance(data, dict):
            raise SpecError(f"a stack is a JSON object, not {type(data).__name__}")
        fields = cast("dict[str, object]", data)
        version = fields.get("schema_version")
        if version == 1 and "env" in fields:
            return cls(stack=_read_older(fields))
        if version != SCHEMA_VERSION:
            raise SchemaVersionError(
                f"schema version {version!r} is not known here (this version reads 1 and {SCHEMA_VERSION})",
                place="schema_version",
            )
        if unknown := sorted(fields.keys() - {"schema_version", "stack"}):
            raise SpecError(f"unknown key {unknown[0]!r}", place=unknown[0])
        return cls(stack=_read_node(fields.get("stack"), "stack", 0))

    def build(self) -> ActionableEnv:
        """Make the live stack. Raises SpecError naming the node that cannot be built."""
        return _build(self.stack, "stack")


def make(id: str, /, **options: Any) -> ActionableEnv:  # noqa: A002  the word the files use
    """Make a registered environment (or `module:Class`) with its options, as in `make("toy24", task="easy-0000")`."""
    return StackSpec.environment(id, **options).build()


def _read_node(data: object, place: str, depth: int) -> StackNode:
    if depth > MAX_DEPTH:
        raise SpecError(f"more than {MAX_DEPTH} components one above the other", place=place)
    if not isinstance(data, dict):
        raise SpecError(f"expected an object, found {type(data).__name__}", place=place)
    fields = dict(cast("dict[str, object]", data))
    kind = fields.get("kind")
    if not isinstance(kind, str) or kind not in _KINDS:
        raise SpecError(f"unknown tag {kind!r} (known: {', '.join(sorted(_KINDS))})", place=f"{place}.kind")
    if kind == "wrapped":
        fields["inner"] = _read_node(fields.get("inner"), f"{place}.inner", depth + 1)
    if kind == "chained":
        segments = fields.get("segments")
        if not isinstance(segments, list | tuple):
            raise SpecError("expected a list of two or more nodes", place=f"{place}.segments")
        fields["segments"] = tuple(
            _read_node(segment, f"{place}.segments[{index}]", depth + 1)
            for index, segment in enumerate(cast("list[object]", segments))
        )
    return _validated(_KINDS[kind], fields, place)


def _validated(model: type[_Model], fields: dict[str, object], place: str) -> _Model:
    try:
        return model.model_validate(fields)
    except ValidationError as error:
        where, message = first_problem(error)
        raise SpecError(message, place=f"{place}.{where}") from error


def _read_older(fields: dict[str, object]) -> StackNode:
    """Read the checkpoint form of schema version 1: an environment and a list of components, innermost first."""
    env = fields.get("env")
    if not isinstance(env, dict):
        raise SpecError("expected an object with 'type' and 'state'", place="env")
    env_fields = cast("dict[str, object]", env)
    node = _validated(EnvironmentNode, {"id": env_fields.get("type"), "state": env_fields.get("state")}, "env")
    harnesses = fields.get("harnesses", [])
    if not isinstance(harnesses, list):
        raise SpecError("expected a list", place="harnesses")
    for index, harness in enumerate(cast("list[object]", harnesses)):
        place = f"harnesses[{index}]"
        if not isinstance(harness, dict):
            raise SpecError("expected an object with 'type' and 'state'", place=place)
        entry = cast("dict[str, object]", harness)
        component = _OLDER_TAGS.get(str(entry.get("type")))
        if component is None:
            raise SpecError(
                f"unknown tag {entry.get('type')!r} (known: {', '.join(sorted(_OLDER_TAGS))})", place=f"{place}.type"
            )
        state = _older_state(component, entry.get("state"), f"{place}.state")
        node = _validated(WrappedNode, {"component": component, "state": state, "inner": node}, place)
    return node


def _older_state(component: str, state: object, place: str) -> dict[str, object]:
    key, new_key = ("actions", "actions") if component == "stage" else ("rules_code", "source")
    if not isinstance(state, dict) or key not in state:
        raise SpecError(f"expected an object with {key!r}", place=place)
    return {new_key: cast("dict[str, object]", state)[key]}


def _build(node: StackNode, place: str) -> ActionableEnv:
    if isinstance(node, EnvironmentNode):
        return _build_environment(node, place)
    component = _component(node, place)
    with ExitStack() as undo:
        if isinstance(node, WrappedNode):
            below: Any = _build(node.inner, f"{place}.inner")
            undo.callback(below.close)
        else:
            below = []
            for index, segment in enumerate(node.segments):
                below.append(_build(segment, f"{place}.segments[{index}]"))
                undo.callback(below[-1].close)
        try:
            built: ActionableEnv = component.from_state(node.state, below)
        except (SpecError, TypeError, ValidationError) as error:
            raise SpecError(one_line(error), place=f"{place}.state") from error
        undo.pop_all()
        return built


def _component(node: WrappedNode | ChainedNode, place: str) -> Any:
    """Return the component's class. A file may name anything that can be imported, so nothing else is called."""
    from envharness.core.env import ActionableEnv
    from envharness.core.harness import EnvHarness

    found: Any = _loaded("component", node.component, f"{place}.component")
    wraps = isinstance(found, type) and issubclass(found, EnvHarness)
    joins = isinstance(found, type) and issubclass(found, ActionableEnv) and not wraps
    if not (wraps if isinstance(node, WrappedNode) else joins):
        what = "wraps an environment" if isinstance(node, WrappedNode) else "joins environments"
        raise SpecError(f"{node.component!r} is not a component that {what}", place=f"{place}.component")
    return cast("Any", found)


def _build_environment(node: EnvironmentNode, place: str) -> ActionableEnv:
    from envharness.core.env import ActionableEnv

    bridge = _loaded("environment", node.id, f"{place}.id")
    if not (isinstance(bridge, type) and issubclass(bridge, ActionableEnv)):
        raise SpecError(f"{node.id!r} is not an environment (a subclass of ActionableEnv)", place=f"{place}.id")
    try:
        env: ActionableEnv
        env = bridge(**node.options) if node.state is None else bridge.from_state(node.state, **node.options)
    except (TypeError, ValidationError) as error:
        raise SpecError(f"environment {node.id!r}: {one_line(error)}", place=f"{place}.options") from error
    env._node = node  # noqa: SLF001  # pyright: ignore[reportPrivateUsage]  recorded here and nowhere else
    return env


def _loaded(kind: Kind, name: str, place: str) -> Any:
    try:
        return load(kind, name)
    except (UnknownIdError, PluginError) as error:
        raise SpecError(str(error), place=place) from error
