"""Flaws: one pure function each, from trajectories to a strength in [0, 1] and the steps where it shows."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field

from envharness.core.canonical import canonical_json
from envharness.core.messages import counted
from envharness.core.trace import Episode, TraceStep
from envharness.core.types import ToolSchema
from envharness.rigger.patterns import actions_of, effective, signature, usage
from envharness.rigger.places import place, telling_numbers

LONG_TEXT = 300
"""Characters; below it there is no first part to speak of."""


@dataclass(frozen=True)
class Finding:
    """How strongly one flaw shows, and where."""

    score: float
    evidence: list[str] = field(default_factory=list[str])


@dataclass(frozen=True)
class Flaw:
    """A weakness looked for in every task: its stable name, what it means, and how it is measured."""

    name: str
    meaning: str
    measure: Callable[[Sequence[Episode], Sequence[ToolSchema]], Finding]


def _share(hits: int, of: int) -> float:
    return hits / of if of else 0.0


def _where(episode: Episode, first: int, last: int, what: str) -> str:
    steps = f"step {first}" if first == last else f"steps {first}-{last}"
    return f"rollout {episode.index}, {steps}: {what}"


def _pairs(episode: Episode) -> Iterator[tuple[TraceStep, TraceStep]]:
    return zip(episode.steps, episode.steps[1:], strict=False)


def leans_on_action(episodes: Sequence[Episode], tools: Sequence[ToolSchema]) -> Finding:
    """One narrow kind of action dominates where others of the same tool exist."""
    total = len(actions_of(episodes))
    narrow = [(pattern, count) for pattern, count in usage(episodes, tools) if pattern.argument]
    if not narrow or not total:
        return Finding(0.0)
    pattern, count = narrow[0]
    evidence = [
        _where(episode, hits[0], hits[-1], f"{pattern} in {len(hits)} of {counted(len(episode.steps), 'turn')}")
        for episode in episodes
        if (hits := [s.step for s in episode.steps if s.action is not None and pattern.matches(s.action)])
    ]
    return Finding(_share(count, total), evidence)


def fixed_opening(episodes: Sequence[Episode], tools: Sequence[ToolSchema]) -> Finding:
    """Every rollout begins with the same action: one plan, never another."""
    del tools
    openings = [e.steps[0].action for e in episodes if e.steps and e.steps[0].action is not None]
    if len(openings) < 2:  # noqa: PLR2004  one opening repeats nothing
        return Finding(0.0)
    [(most, count)] = Counter(map(signature, openings)).most_common(1)
    opening = next(action for action in openings if signature(action) == most)
    score = (count - 1) / (len(openings) - 1)
    return Finding(score, [f"{count} of {len(openings)} rollouts, step 0: {opening}"] if count > 1 else [])


def repeats_actions(episodes: Sequence[Episode], tools: Sequence[ToolSchema]) -> Finding:
    """The same action again although it changed nothing the time before."""
    del tools
    evidence: list[str] = []
    repeats = turns = 0
    for episode in episodes:
        turns += max(len(episode.steps) - 1, 0)
        for before, after in _pairs(episode):
            if before.action and after.action and not effective(before) and before.action == after.action:
                repeats += 1
                evidence.append(_where(episode, before.step, after.step, f"{after.action} again"))
    return Finding(min(1.0, 4 * _share(repeats, turns)), evidence)


def ignores_refusals(episodes: Sequence[Episode], tools: Sequence[ToolSchema]) -> Finding:
    """Actions that the environment refuses or that change nothing."""
    del tools
    evidence = [
        _where(e, s.step, s.step, s.refused or s.blocked or "no effect")
        for e in episodes
        for s in e.steps
        if not effective(s) and not s.stopped
    ]
    return Finding(min(1.0, 2 * _share(len(evidence), sum(len(e.steps) for e in episodes))), evidence)


def revisits_states(episodes: Sequence[Episode], tools: Sequence[ToolSchema]) -> Finding:
    """Comes back to a state it has been in: progress undone, or walking in circles."""
    del tools
    telling = telling_numbers(episodes)
    evidence: list[str] = []
    turns = 0
    for episode in episodes:
        seen: dict[str, int] = {}
        here = ""
        if episode.start is not None and episode.start.state is not None:
            here = canonical_json(place(episode.start.state, telling))
            seen[here] = 0
        for step in episode.steps:
            if step.state is None or not effective(step):
                continue
            turns += 1
            before, here = here, canonical_json(place(step.state, telling))
            # Only what was left can be come back to: to stay where one is, is no circle.
            if here in seen and here != before:
                evidence.append(_where(episode, seen[here], step.step, "back in the same state"))
            seen[here] = step.step
    return Finding(min(1.0, 2 * _share(len(evidence), turns)), evidence)


def stops_early(episodes: Sequence[Episode], tools: Sequence[ToolSchema]) -> Finding:
    """Gives up or declares victory on an episode that is then lost."""
    del tools
    lost = [e for e in episodes if e.valid and not e.success]
    hits = [e for e in lost if e.outcome.reason in {"stopped", "ended"}]
    evidence = [
        _where(e, last, last, f"ended by the policy's own choice ({e.outcome.reason})")
        for e in hits
        for last in [max(len(e.steps) - 1, 0)]
    ]
    return Finding(_share(len(hits), len(episodes)), evidence)


def runs_out_of_steps(episodes: Sequence[Episode], tools: Sequence[ToolSchema]) -> Finding:
    """Loses by using up its turns."""
    del tools
    hits = [e for e in episodes if e.valid and not e.success and e.outcome.reason == "out_of_steps"]
    evidence = [f"rollout {e.index}: out of steps after {counted(len(e.steps), 'turn')}" for e in hits]
    return Finding(_share(len(hits), len(episodes)), evidence)


def neglects_tool(episodes: Sequence[Episode], tools: Sequence[ToolSchema]) -> Finding:
    """A tool that is offered is never used, in any rollout."""
    used = {action.name for action in actions_of(episodes)}
    unused = sorted({tool.name for tool in tools} - used)
    evidence = [f"all rollouts: {name} is never used" for name in unused] if used else []
    return Finding(_share(len(evidence), len(tools)), evidence)


def reads_only_the_start(episodes: Sequence[Episode], tools: Sequence[ToolSchema]) -> Finding:
    """What it names in its actions stands in the first part of long observations."""
    del tools
    early = late = 0
    evidence: list[str] = []
    for episode in episodes:
        shown = episode.start.shown.text if episode.start else ""
        for step in episode.steps:
            for value in step.action.kwargs.values() if step.action else ():
                place = shown.find(str(value))
                if len(shown) < LONG_TEXT or place < 0 or len(str(value)) < 2:  # noqa: PLR2004  a letter is anywhere
                    continue
                early, late = (early + 1, late) if 2 * place < len(shown) else (early, late + 1)
                evidence.append(
                    _where(episode, step.step, step.step, f"{value!r} at character {place} of {len(shown)}")
                )
            shown = step.shown.text
    share = _share(early, early + late)
    return Finding(max(0.0, 2 * share - 1), evidence if share > 0.5 else [])  # noqa: PLR2004  one half is chance


def one_path(episodes: Sequence[Episode], tools: Sequence[ToolSchema]) -> Finding:
    """The rollouts won are won in one way: the same kinds of action in the same order."""
    del tools
    wins = [tuple(signature(s.action) for s in e.steps if s.action) for e in episodes if e.success]
    if len(wins) < 2:  # noqa: PLR2004  one win is one way by necessity
        return Finding(0.0)
    count = Counter(wins).most_common(1)[0][1]
    return Finding((count - 1) / (len(wins) - 1), [f"{count} of {len(wins)} wins take the same actions"])


FLAWS: tuple[Flaw, ...] = (
    Flaw("leans_on_action", "it leans on one kind of action where the tool offers others", leans_on_action),
    Flaw("fixed_opening", "it opens every attempt with the same action", fixed_opening),
    Flaw("one_path", "it knows one way to win and takes it every time", one_path),
    Flaw("repeats_actions", "it repeats an action that has just changed nothing", repeats_actions),
    Flaw("ignores_refusals", "it spends turns on actions that are refused or change nothing", ignores_refusals),
    Flaw("revisits_states", "it undoes its own progress or walks in circles", revisits_states),
    Flaw("stops_early", "it ends the attempt before the task is done", stops_early),
    Flaw("runs_out_of_steps", "it uses up its turns", runs_out_of_steps),
    Flaw("neglects_tool", "it never tries a tool that is offered", neglects_tool),
    Flaw("reads_only_the_start", "it acts on the first part of long observations", reads_only_the_start),
)
