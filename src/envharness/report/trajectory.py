"""Two trajectories side by side: what the policy did and was shown, and what really crossed the environment's edge."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from envharness.core.messages import counted
from envharness.core.trace import ComponentEvent, Episode, Exchange, StartRecord, TraceStep
from envharness.report.markup import Child, Html, escape, join, tag
from envharness.report.source import call
from envharness.report.text import cut, duration, words
from envharness.store.episode_rows import EpisodeNote

PAGE_CHARACTERS = 5_000_000
"""About how much of trajectories a page may hold, so that a browser still opens it."""
_TURN_MARKUP = 400
_TURN_CHARACTERS = 1_200
"""Markup of a turn, and the least that is worth showing of one: its markup and three short texts."""


@dataclass(frozen=True)
class Caps:
    """How much of a trajectory is shown: its first and last turns, and so many characters of each text."""

    head: int = 24
    tail: int = 12
    text: int = 2_400


def caps_for(tasks: int) -> Caps:
    """Share the page's room among the tasks, two trajectories each: first the texts get shorter, then turns go."""
    full = Caps()
    room = PAGE_CHARACTERS // (2 * max(tasks, 1))
    turns = max(6, min(room // _TURN_CHARACTERS, full.head + full.tail))
    text = max(240, min((room // turns - _TURN_MARKUP) // 3, full.text))
    return Caps(head=turns - turns // 3, tail=turns // 3, text=text)


def choose_pair(batch: Sequence[EpisodeNote]) -> list[str]:
    """Return the keys of the first win and the first loss of a batch, or of its first two where all ended alike."""
    win = next((note.key for note in batch if note.outcome == "success"), None)
    loss = next((note.key for note in batch if note.outcome == "failure"), None)
    if win and loss:
        return [win, loss]
    return [note.key for note in sorted(batch, key=lambda note: note.outcome == "invalid")[:2]]


def comparison(episodes: Sequence[Episode], identifier: str, caps: Caps) -> Html:
    """Lay trajectories side by side, with a switch between what was shown and what was raw (no script needed)."""
    switch: list[Html] = []
    for view, label in (("shown", "Shown to the policy"), ("raw", "Raw exchanges"), ("both", "Both")):
        name = f"{identifier}-{view}"
        checked = view == "shown"
        switch += [
            tag("input", type="radio", name=f"{identifier}-view", id=name, class_=f"view-{view}", checked=checked),
            tag("label", label, for_=name),
        ]
    columns = tag("div", [trajectory(episode, caps) for episode in episodes], class_="pair")
    return tag("div", switch, columns, class_="comparison", role="group", aria_label="trajectories side by side")


def trajectory(episode: Episode, caps: Caps) -> Html:
    """Show one episode from its start to its verdict. Rollouts and turns count from 0, as a diagnosis cites them."""
    steps = episode.steps
    if len(steps) > caps.head + caps.tail:
        gone = len(steps) - caps.head - caps.tail
        shown = [_step(step, caps) for step in steps[: caps.head]]
        shown.append(tag("li", f"{counted(gone, 'turn')} cut", class_="gap"))
        shown += [_step(step, caps) for step in steps[-caps.tail :]]
    else:
        shown = [_step(step, caps) for step in steps]
    start = [_start(episode.start, caps)] if episode.start else []
    return tag(
        "article",
        _heading(episode),
        tag("ol", start, shown, class_="steps"),
        _ending(episode, caps),
        class_="trajectory",
    )


def outcome_badge(episode: Episode) -> Html:
    """Show how an episode ended."""
    label, style = {"success": ("won", "good"), "failure": ("lost", "bad"), "invalid": ("invalid", "warn")}[
        episode.outcome.kind
    ]
    return tag("span", label, class_=f"badge {style}")


def _heading(episode: Episode) -> Html:
    facts = [f"rollout {episode.index}", counted(len(episode.steps), "turn"), duration(episode.seconds)]
    if episode.usage.calls:
        facts.append(f"{episode.usage.prompt + episode.usage.completion:,} tokens")
    return tag("h5", outcome_badge(episode), " ", tag("span", " · ".join(facts), class_="muted"))


def _ending(episode: Episode, caps: Caps) -> Html:
    parts: list[str] = []
    if episode.evaluation is not None:
        parts.append(f"verifier: {'success' if episode.evaluation.success else 'no success'}")
        parts.append(f"score {episode.evaluation.score:.2f}")
    if episode.outcome.reason:
        parts.append(words(cut(episode.outcome.reason, caps.text)))
    if episode.outcome.detail:
        parts.append(cut(episode.outcome.detail, caps.text))
    notes = [tag("li", cut(note, caps.text)) for note in episode.notes[:10]]
    return join(
        tag("p", " · ".join(parts), class_="ending"),
        tag("ul", notes, class_="notes") if notes else None,
    )


def _start(start: StartRecord, caps: Caps) -> Html:
    replayed = [_exchange(exchange, caps, "replayed") for exchange in start.replayed[: caps.head]]
    gone = len(start.replayed) - len(replayed)
    raw: list[Child] = [tag("p", "the environment's own start", class_="note"), _text(start.raw.text, caps), *replayed]
    if gone > 0:
        raw.append(tag("p", f"{counted(gone, 'replayed action')} cut", class_="gap"))
    replay = f"a Stage replayed {counted(len(start.replayed), 'action')}" if start.replayed else ""
    return tag(
        "li",
        tag("p", tag("span", "start", class_="turn"), tag("span", replay, class_="muted"), class_="act"),
        _events(start.events, caps),
        tag("div", *raw, class_="raw"),
        tag("div", _text(start.shown.text, caps), class_="shown"),
    )


def _step(step: TraceStep, caps: Caps) -> Html:
    # A Contract's own event says it already, and says whose it was.
    told = step.blocked and all(event.kind != "blocked" for event in step.events)
    what = tag("span", "stops", class_="call") if step.stopped and step.action is None else call(step.action)
    return tag(
        "li",
        tag("p", tag("span", str(step.step), class_="turn"), what, _flags(step), class_="act"),
        _words_of_policy(step.text, caps),
        tag("p", f"blocked: {cut(step.blocked, caps.text)}", class_="note bad") if told else None,
        tag("p", f"refused: {cut(step.refused, caps.text)}", class_="note warn") if step.refused else None,
        _events(step.events, caps),
        tag("div", _raw(step, caps), class_="raw"),
        tag("div", _text(step.shown.text, caps), class_="shown same" if _passed_through(step) else "shown"),
    )


def _flags(step: TraceStep) -> Html | None:
    flags = [name for name in ("terminated", "truncated") if getattr(step, name)]
    if step.stopped:
        flags.append("stopped")
    if step.reward:
        flags.append(f"reward {step.reward:g}")
    return tag("span", " · ".join(flags), class_="flags") if flags else None


def _words_of_policy(text: str, caps: Caps) -> Html | None:
    if not text.strip():
        return None
    return tag("details", tag("summary", "the policy's words"), _text(text, caps), class_="thought")


def _events(events: Sequence[ComponentEvent], caps: Caps) -> Html | None:
    """Mark what components did. A component's name and detail may come from hook source, and are text like any."""
    if not events:
        return None
    items = [
        tag(
            "li",
            tag("span", cut(event.component, 80), class_="component"),
            f" {words(event.kind)}",
            f": {cut(event.detail, caps.text)}" if event.detail else None,
            class_=f"event {event.kind}",
        )
        for event in events[: caps.head]
    ]
    gone = len(events) - len(items)
    return tag("ul", items, tag("li", f"{gone} more cut") if gone else None, class_="events")


def _raw(step: TraceStep, caps: Caps) -> Html:
    if not step.raw:
        return tag("p", "nothing reached the environment", class_="note")
    shown = [_exchange(exchange, caps, "reached the environment", step) for exchange in step.raw[: caps.head]]
    gone = len(step.raw) - len(shown)
    return join(shown, tag("p", f"{counted(gone, 'exchange')} cut", class_="gap") if gone else None)


def _exchange(exchange: Exchange, caps: Caps, how: str, step: TraceStep | None = None) -> Html:
    """Show one exchange. What equals the policy's side is said, not repeated: the difference is the point."""
    response = exchange.response
    same_action = step is not None and _same_call(exchange, step)
    asked = tag("span", "action as asked for", class_="muted")
    action = asked if same_action else join(how, " ", call(exchange.action))
    ended = [name for name in ("terminated", "truncated") if getattr(response, name)]
    segment = f" in segment {cut(exchange.segment, 40)}" if exchange.segment != "0" else ""
    return join(
        tag("p", action, segment, f" · {' · '.join(ended)}" if ended else None, class_="note"),
        tag("p", "answered, and the policy was shown:", class_="note muted")
        if step is not None and _passed_through(step)
        else _text(response.observation.text, caps),
    )


def _same_call(exchange: Exchange, step: TraceStep) -> bool:
    action = step.action
    return action is not None and (action.name, action.kwargs) == (exchange.action.name, exchange.action.kwargs)


def _passed_through(step: TraceStep) -> bool:
    """Whether the policy was shown just what the environment answered: then it is printed once, in every view."""
    return len(step.raw) == 1 and step.raw[0].response.observation.text == step.shown.text


def _text(text: str, caps: Caps) -> Html:
    if not text:
        return tag("p", "empty", class_="note muted")
    return tag("pre", escape(cut(text, caps.text)), tabindex=0)
