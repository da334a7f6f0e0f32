"""The environment's state as hook source sees it: an object and a dict at once, nested dicts too.

Each call gets a view of its own, decoded anew, so what a hook writes into it is gone with the call. `extras` is the
exception: it belongs to the hook and lasts for the episode.
"""

from __future__ import annotations

from _collections_abc import dict_items, dict_values
from typing import Any

_SLOT = "_memory"


class HookMemory:
    """What lasts from one hook call to the next, for one episode."""

    def __init__(self) -> None:
        self.extras: dict[str, Any] = {}


class ListView(list[Any]):
    """A list whose dicts are views."""

    __slots__ = ()


class StateView(dict[str, Any]):
    """A dict whose keys can be read as attributes. A key that is also a dict method is read as `view["items"]`."""

    __slots__ = ()

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__"):  # copy and pickle ask for these; they must get a plain no
            raise AttributeError(name)
        try:
            return self[name]
        except KeyError:
            known = ", ".join(sorted(map(str, self))) or "nothing"
            raise AttributeError(f"the state has no {name!r} here; it has: {known}") from None

    def __setattr__(self, name: str, value: Any) -> None:
        self[name] = value

    def __getitem__(self, key: str) -> Any:
        value = super().__getitem__(key)
        if type(value) is dict or type(value) is list:
            value = as_view(value)
            self[key] = value
        return value

    def get(self, key: str, default: Any = None) -> Any:
        """The value of `key`, or `default`."""
        try:
            return self[key]
        except KeyError:
            return default

    def values(self) -> dict_values[str, Any]:
        """All values, nested dicts as views."""
        self._view_all()
        return super().values()

    def items(self) -> dict_items[str, Any]:
        """All pairs, nested dicts as views."""
        self._view_all()
        return super().items()

    def _view_all(self) -> None:
        for key in self:
            self[key]  # reading a value puts its view in place


class EnvState(StateView):
    """The whole state, with `extras` beside it."""

    __slots__ = (_SLOT,)

    def __init__(self, state: dict[str, Any], memory: HookMemory) -> None:
        super().__init__(state)
        object.__setattr__(self, _SLOT, memory)

    @property
    def extras(self) -> dict[str, Any]:
        """The hook's own dict for this episode."""
        return object.__getattribute__(self, _SLOT).extras

    @extras.setter
    def extras(self, value: dict[str, Any]) -> None:
        object.__getattribute__(self, _SLOT).extras = value

    def __setattr__(self, name: str, value: Any) -> None:
        if name in (_SLOT, "extras"):
            object.__setattr__(self, name, value)
        else:
            self[name] = value

    def __missing__(self, key: str) -> Any:
        if key == "extras":  # so that env_state["extras"] and env_state.get("extras") work as the attribute does
            return self.extras
        raise KeyError(key)


def as_view(value: Any) -> Any:
    """`value` with every dict on the way of lists replaced by a view; deeper dicts follow when they are read."""
    if type(value) is dict:
        return StateView(value)  # pyright: ignore[reportUnknownArgumentType]  decoded JSON
    if type(value) is list:
        return ListView(as_view(item) for item in value)  # pyright: ignore[reportUnknownVariableType]  decoded JSON
    return value
