"""Evidence as text for a model, within a budget of tokens: figures, all rollouts in outline, two of them in full."""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence

from envharness.core.trace import Episode, TraceStep
from envharness.core.types import ToolSchema
from envharness.llm.tokens import BYTES_A_TOKEN, text_tokens
from envharness.rigger.designers.base import Evidence
from envharness.rigger.fence import fence
from envharness.rigger.flaws import FLAWS
from envharness.rigger.patterns import spell
from envharness.rigger.records import Candidate, FailureLabel, Measurement, Round

LEAST_TOKENS = 800
"""A budget below this cannot hold what any answer needs."""
_HEADINGS = 60
"""Tokens kept free for headings and fences."""


def clip(text: str, tokens: int) -> str:
    """Cut a text in its middle to at most `tokens`, saying how much is gone."""
    if text_tokens(text) <= tokens:
        return text
    room = tokens * BYTES_A_TOKEN - 40
    if room <= 0:
        return ""
    raw = text.encode(errors="replace")
    head, tail = raw[: room * 2 // 3], raw[len(raw) - room // 3 :]
    gone = len(raw) - len(head) - len(tail)
    # Half characters at the two edges are dropped, never replaced by something longer.
    return f"{head.decode(errors='ignore')}\n[... {gone} bytes left out ...]\n{tail.decode(errors='ignore')}"


def render_evidence(evidence: Evidence, tokens: int) -> str:
    """Return all that a designer is told, in at most `tokens` (at least `LEAST_TOKENS`).

    The interface and the earlier rounds get up to a fifth of the budget each and the outlines a quarter; what they
    leave goes to the shortest win and the longest loss in full.
    """
    tokens = max(tokens, LEAST_TOKENS)
    played = evidence.latest or evidence.baseline
    parts = [
        clip(_figures(evidence), tokens // 8),
        _section("Tools and state", render_interface(evidence.tools, evidence.state_schema), tokens // 5),
        _section("Known ways to win", _wins(evidence), tokens // 16),
        _section("Earlier rounds", render_rounds(evidence.rounds), tokens // 5),
        _section("Rollouts in outline", _outlines(evidence), tokens // 4),
    ]
    left = tokens - sum(text_tokens(part) for part in parts) - 8
    chosen = choose_episodes(played)
    for number, episode in enumerate(chosen):
        share = left // (len(chosen) - number)
        part = _section(f"In full: {_kind(episode)}", render_episode(episode, max(share - _HEADINGS, 0)), share)
        left -= text_tokens(part) + 1
        parts.append(part)
    return "\n\n".join(part for part in parts if part)


def choose_episodes(episodes: Sequence[Episode]) -> list[Episode]:
    """Return the shortest win and the longest loss, as far as there are such."""
    wins = sorted((e for e in episodes if e.success), key=lambda e: (len(e.steps), e.index))
    losses = sorted((e for e in episodes if e.valid and not e.success), key=lambda e: (-len(e.steps), e.index))
    return wins[:1] + losses[:1]


def render_interface(tools: Iterable[ToolSchema], state_schema: str) -> str:
    """Return the tools with their parameters and the description of the state that hooks read."""
    lines = [f"- {tool.name}: {tool.description}\n  {json.dumps(tool.parameters, sort_keys=True)}" for tool in tools]
    return "\n".join(["Tools:", *lines, "", "env_state:", state_schema])


def outline(episode: Episode) -> str:
    """Return a rollout in one line."""
    moves = " > ".join(_move(step) for step in episode.steps)
    return f"rollout {episode.index} ({_ending(episode)}, {len(episode.steps)} turns): {moves}"


def render_episode(episode: Episode, tokens: int) -> str:
    """Return a rollout turn by turn; where it does not fit, turns in its middle are left out."""
    start = f"start: {episode.start.shown.text}" if episode.start else "start: (none)"
    turns = [clip(start, tokens // 4), *(clip(_turn(step), tokens // 4) for step in episode.steps)]
    head, tail = _fitting(turns, tokens - 16)
    gone = len(turns) - head - tail
    middle = [f"[... {gone} turns left out ...]"] if gone else []
    return "\n".join([*turns[:head], *middle, *turns[len(turns) - tail :]])


def render_rounds(rounds: Sequence[Round]) -> str:
    """Return every candidate so far with what became of it, the last one first, because it matters most."""
    return "\n\n".join(render_round(entry) for entry in reversed(rounds))


def render_round(entry: Round) -> str:
    """Return one candidate and its fate."""
    lines = [f"round {entry.number}: {entry.verdict}; {entry.feedback}"]
    if entry.measured is not None:
        lines.append(f"measured: {render_measurement(entry.measured)}")
    lines += [f"check {check.id}: {check.detail}" for check in entry.checks if check.id == "changes_something"]
    lines += [
        f"predicted {shift.predicted or 'nothing about'} {shift.axis}/{shift.label}: {shift.before} before, "
        f"{shift.after} after ({shift.observed})"
        for shift in entry.shifts
    ]
    lines += [render_label(label) for label in entry.failures]
    return "\n".join([*lines, render_candidate(entry.candidate)])


def render_candidate(candidate: Candidate) -> str:
    """Return what a candidate consists of."""
    actions = json.dumps([action.model_dump(mode="json") for action in candidate.in_env_actions])
    return f"in_env_actions: {actions}\ncontract_source:\n{candidate.contract_source or '(none)'}"


def render_measurement(measured: Measurement) -> str:
    """Return a batch in figures."""
    return (
        f"{measured.successes} of {measured.valid} rollouts won, {measured.mean_steps:.1f} turns on average, "
        f"{measured.out_of_steps} out of steps, {measured.blocked_turns} of {measured.turns} turns blocked"
    )


def render_label(label: FailureLabel) -> str:
    """Return a labelled failure in one line."""
    return f"rollout {label.rollout} failed by {label.axis}/{label.label}: {label.sentence}"


def _figures(evidence: Evidence) -> str:
    low, high = evidence.band
    aim = {
        "harden": "The task is too easy for this policy: make it harder.",
        "scaffold": "The task is too hard for this policy: make it easier.",
        "sharpen": "The rate is on target: make the weakness matter without moving the rate.",
    }[evidence.direction]
    scores = sorted(evidence.diagnosis.scores.items(), key=lambda item: (-item[1], item[0]))
    meanings = {flaw.name: flaw.meaning for flaw in FLAWS}
    shown = [f"- {name} {score:.2f}: {meanings.get(name, '')}" for name, score in scores if score > 0]
    return "\n".join(
        [
            f"# Task {json.dumps(evidence.task)}",
            f"Baseline: {render_measurement(evidence.measured)}. At most {evidence.max_steps} turns a rollout.",
            f"Target: a success rate from {low:g} to {high:g}. {aim}",
            "Habits that code measured in the baseline, 0 to 1:",
            *(shown or ["- none"]),
        ]
    )


def _wins(evidence: Evidence) -> str:
    return "\n".join("; ".join(spell(action) for action in win) for win in evidence.wins)


def _outlines(evidence: Evidence) -> str:
    groups = [("baseline", evidence.baseline, evidence.failures)]
    if evidence.latest:
        last = next((entry for entry in reversed(evidence.rounds) if entry.measured is not None), None)
        groups.insert(0, ("latest round", evidence.latest, tuple(last.failures) if last else ()))
    lines: list[str] = []
    for name, episodes, labels in groups:
        lines += [f"{name}:", *(outline(episode) for episode in episodes), *(render_label(label) for label in labels)]
    return "\n".join(lines)


def _section(title: str, body: str, tokens: int) -> str:
    """Return a fenced section, or nothing where there is no body or no room for it."""
    room = tokens - _HEADINGS
    if not body or room <= 0:
        return ""
    made = f"## {title}\n{fence(clip(body, room), title.lower())}"
    while text_tokens(made) > tokens and room > 0:
        # Breaking up chat markers makes a hostile text longer than it was.
        room -= max(text_tokens(made) - tokens, 8)
        made = f"## {title}\n{fence(clip(body, max(room, 0)), title.lower())}"
    return made if room > 0 else ""


def _fitting(turns: Sequence[str], tokens: int) -> tuple[int, int]:
    """Return how many turns from the start and from the end fit; the last ones tell how it was lost."""
    head = tail = 0
    while head + tail < len(turns):
        from_end = tail <= head
        turn = turns[len(turns) - 1 - tail] if from_end else turns[head]
        tokens -= text_tokens(turn) + 1
        if tokens < 0:
            break
        head, tail = (head, tail + 1) if from_end else (head + 1, tail)
    return head, tail


def _turn(step: TraceStep) -> str:
    lines = [f"step {step.step}: {_move(step)}"]
    if step.text:
        lines.append(f"  thought: {step.text}")
    lines += [f"  component: {event.kind} in {event.hook or 'it'}: {event.detail}" for event in step.events]
    raw = step.raw[-1] if step.raw else None
    if raw is not None and step.action is not None and raw.action.kwargs != step.action.kwargs:
        lines.append(f"  reached the environment as: {spell(raw.action)}")
    lines.append(f"  shown: {step.shown.text}")
    if raw is not None and raw.response.observation.text != step.shown.text:
        lines.append(f"  raw: {raw.response.observation.text}")
    return "\n".join(lines)


def _move(step: TraceStep) -> str:
    if step.action is None:
        return "(stops)" if step.stopped else "(no action)"
    mark = " [blocked]" if step.blocked else " [refused]" if step.refused else ""
    return f"{spell(step.action)}{mark or (' [no effect]' if step.info.get('ineffective') else '')}"


def _ending(episode: Episode) -> str:
    return episode.outcome.kind if episode.success else f"{episode.outcome.kind}: {episode.outcome.reason}"


def _kind(episode: Episode) -> str:
    return f"rollout {episode.index}, {'the shortest win' if episode.success else 'the longest loss'}"
