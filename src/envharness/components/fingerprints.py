"""Where the Stages of a stack lead: what episodes recorded of it, and the stack that holds later resets to it."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import cast

from pydantic import JsonValue, TypeAdapter, ValidationError

from envharness.components.stage import Stage
from envharness.core.spec import ChainedNode, EnvironmentNode, StackNode, StackSpec
from envharness.core.trace import ComponentEvent, Episode

Fingerprints = dict[tuple[str, str], tuple[str, ...]]
"""For a Stage (its label in a trace) and a reset seed, one digest of the state per action."""

_Recorded = TypeAdapter(dict[str, tuple[str, ...]])


def recorded_fingerprints(episodes: Iterable[Episode]) -> list[tuple[Episode, Fingerprints]]:
    """Return for each episode that started what its Stages recorded; a Stage that had a fingerprint records none.

    A Stage that is reset later, in a segment of a Chain, is among them.
    """
    found: list[tuple[Episode, Fingerprints]] = []
    for episode in episodes:
        if episode.start is not None:
            events = [*episode.start.events, *(event for step in episode.steps for event in step.events)]
            found.append((episode, _read(events)))
    return found


def with_fingerprints(stack: StackSpec, episodes: Iterable[Episode]) -> StackSpec:
    """Return `stack` with the fingerprints that `episodes` on it recorded; those it has already stay.

    From then on a reset whose replay leads elsewhere is an error. What two episodes disagree on is left out.
    """
    agreed: dict[tuple[str, str], set[tuple[str, ...]]] = {}
    for _, recorded in recorded_fingerprints(episodes):
        for key, digests in recorded.items():
            agreed.setdefault(key, set()).add(digests)
    known = {key: next(iter(digests)) for key, digests in agreed.items() if len(digests) == 1}
    return stack.model_copy(update={"stack": _filled(stack.stack, known, [0])}) if known else stack


def _read(events: Iterable[ComponentEvent]) -> Fingerprints:
    found: Fingerprints = {}
    for event in events:
        if event.kind == "recorded_start":
            try:
                by_seed = _Recorded.validate_json(event.detail)
            except ValidationError:
                continue  # another component's, in a form of its own
            found.update({(event.component, seed): digests for seed, digests in by_seed.items()})
    return found


def _filled(node: StackNode, known: Mapping[tuple[str, str], tuple[str, ...]], count: list[int]) -> StackNode:
    """Fill in below first, then here: labels are numbered from the innermost component, as an episode numbers them."""
    if isinstance(node, EnvironmentNode):
        return node
    if isinstance(node, ChainedNode):
        segments = tuple(_filled(segment, known, count) for segment in node.segments)
        count[0] += 1
        return node.model_copy(update={"segments": segments})
    inner = _filled(node.inner, known, count)
    label = f"{node.component}#{count[0]}"
    count[0] += 1
    state = dict(node.state)
    mine = {seed: list(digests) for (owner, seed), digests in sorted(known.items()) if owner == label}
    if node.component == Stage.tag and mine:
        former = state.get("fingerprints")
        merged = {**mine, **(former if isinstance(former, dict) else {})}
        state["fingerprints"] = cast("JsonValue", dict(sorted(merged.items())))
    return node.model_copy(update={"inner": inner, "state": state})
