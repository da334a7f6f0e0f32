"""One task of a run: its line in the list, its diagnosis, its rounds, its component and two of its trajectories."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from envharness.core.messages import counted
from envharness.core.spec import ChainedNode, EnvironmentNode, StackSpec, WrappedNode
from envharness.core.trace import Episode
from envharness.report.failures import failure_list, failure_section
from envharness.report.figures import belief_text, rate_strip, rate_text
from envharness.report.markup import Html, join, table, tag
from envharness.report.numbers import Band, by_round, flaw_of
from envharness.report.source import action_list, candidate_line, python_source
from envharness.report.text import cut, visible_line, words
from envharness.report.trajectory import Caps, choose_pair, comparison
from envharness.rigger.records import Candidate, Diagnosis, Measurement, Round, TaskResult
from envharness.rigger.summary import accepted_round, deciding_measurement
from envharness.store.database import RunStore

PROSE_LIMIT = 4_000
NAME_LIMIT = 200
EVIDENCE_SHOWN = 12

STATUS_STYLE = {"accepted": "good", "in_band_already": "neutral", "rejected": "bad", "invalid": "warn"}
DECISION_STYLE = {"accept": "good", "refine": "neutral", "reject": "bad"}


@dataclass(frozen=True)
class TaskPage:
    """What drawing a task needs beside its result."""

    band: Band
    caps: Caps
    store: RunStore


def task_section(result: TaskResult, number: int, page: TaskPage) -> Html:
    """Show a task: one line that opens to everything known about it."""
    identifier = f"task-{number}"
    return tag(
        "details",
        _line(result, page.band),
        tag(
            "div",
            tag("p", cut(result.reason, PROSE_LIMIT)) if result.reason else None,
            _diagnosis(result.diagnosis),
            _measurements(result),
            join(tag("h4", "Losses of the baseline"), failure_list(result.failures)) if result.failures else None,
            _rounds(result),
            _stack_below(result.base_stack),
            _trajectories(result, identifier, page),
            class_="body",
        ),
        class_=f"task {result.status}",
        id=identifier,
    )


def _line(result: TaskResult, band: Band) -> Html:
    after = deciding_measurement(result)
    fresh = f", fresh {rate_text(result.remeasured)}" if result.remeasured else ""
    flaw = "" if flaw_of(result) == "none" else flaw_of(result)
    return tag(
        "summary",
        tag("span", visible_line(result.task, NAME_LIMIT), class_="name"),
        tag("span", words(result.status), class_=f"badge {STATUS_STYLE[result.status]}"),
        tag("span", rate_strip(result.baseline, after, result.remeasured, band), class_="way"),
        tag("span", f"{rate_text(result.baseline)} → {rate_text(after)}{fresh}", class_="rates"),
        tag("span", words(cut(flaw, NAME_LIMIT)), class_="flaw"),
    )


def _diagnosis(diagnosis: Diagnosis | None) -> Html | None:
    if diagnosis is None:
        return None
    evidence = [tag("li", cut(item, PROSE_LIMIT)) for item in diagnosis.evidence[:EVIDENCE_SHOWN]]
    gone = len(diagnosis.evidence) - len(evidence)
    if gone > 0:
        evidence.append(tag("li", f"{gone} more", class_="muted"))
    return tag(
        "section",
        tag("h4", "Diagnosis of the baseline"),
        tag(
            "p",
            tag("span", words(cut(diagnosis.flaw, NAME_LIMIT)), class_="chip"),
            " ",
            tag("span", f"direction: {diagnosis.direction}", class_="muted"),
        ),
        tag("p", cut(diagnosis.text, PROSE_LIMIT), class_="prose"),
        tag("ul", evidence, class_="evidence") if evidence else None,
    )


def _measurements(result: TaskResult) -> Html:
    accepted = accepted_round(result)
    rows: list[tuple[str, Measurement | None]] = [("baseline", result.baseline)]
    if accepted:
        rows.append((f"accepted in round {accepted.number}", deciding_measurement(result)))
    rows += [("base stack, fresh rollouts", result.before), ("final stack, fresh rollouts", result.remeasured)]
    heads = ("", "won", "success rate", "turns, mean", "out of steps", "blocked turns")
    cells = [_measurement_row(name, measured) for name, measured in rows if measured is not None]
    return tag("section", tag("h4", "Measurements"), table(heads, cells))


def _measurement_row(name: str, measured: Measurement) -> Html:
    lost = f" ({measured.asked - measured.valid} invalid)" if not measured.complete else ""
    return tag(
        "tr",
        tag("th", name, scope="row"),
        tag("td", f"{measured.successes} of {measured.valid}{lost}"),
        tag("td", rate_text(measured)),
        tag("td", f"{measured.mean_steps:.1f}"),
        tag("td", str(measured.out_of_steps)),
        tag("td", f"{measured.blocked_turns} of {measured.turns}"),
    )


def _rounds(result: TaskResult) -> Html | None:
    if not result.rounds:
        return None
    return tag("section", tag("h4", "Rounds"), [_round(attempts[-1], attempts[:-1]) for attempts in by_round(result)])


def _round(entry: Round, unpaid: Sequence[Round]) -> Html:
    """Show a round by its last candidate, and those that failed a free check before it; the accepted one lies open."""
    after = f" · after {counted(len(unpaid), 'unpaid attempt')}" if unpaid else ""
    return tag(
        "details",
        tag(
            "summary",
            tag("span", f"Round {entry.number}"),
            tag("span", entry.decision, class_=f"badge {DECISION_STYLE[entry.decision]}"),
            tag("span", f"{_outcome(entry)}{after}", class_="muted"),
        ),
        tag(
            "div",
            _content(entry),
            tag("h6", "Unpaid attempts before it") if unpaid else None,
            [_unpaid_attempt(earlier, number) for number, earlier in enumerate(unpaid, 1)],
            class_="body",
        ),
        class_="round",
        open=entry.decision == "accept",
    )


def _unpaid_attempt(entry: Round, number: int) -> Html:
    return tag(
        "details",
        tag("summary", tag("span", f"Attempt {number}"), tag("span", _outcome(entry), class_="muted")),
        tag("div", _content(entry), class_="body"),
        class_="round",
    )


def _outcome(entry: Round) -> str:
    measured = entry.measured
    outcome = f"{measured.successes} of {measured.valid} won" if measured else "no rollout paid for"
    return f"{outcome} · {words(cut(entry.verdict, NAME_LIMIT))}" if entry.verdict else outcome


def _content(entry: Round) -> Html:
    """Show a candidate, why it was written, its free checks and what the designer was told about it."""
    rationale = entry.candidate.rationale
    checks = [
        tag(
            "li",
            tag("span", "✓" if check.passed else "✗", class_="good" if check.passed else "bad", aria_hidden="true"),
            f" {words(cut(check.id, NAME_LIMIT))}: {'passed' if check.passed else 'failed'}",
            f": {cut(check.detail, PROSE_LIMIT)}" if check.detail else None,
        )
        for check in entry.checks
    ]
    return join(
        _written_on(entry),
        tag("p", cut(rationale, PROSE_LIMIT), class_="prose") if rationale else None,
        tag("p", "No candidate: the answer could not be used.", class_="muted")
        if any(check.id == "answer" and not check.passed for check in entry.checks)
        else _candidate(entry.candidate),
        tag("h6", "Free checks") if checks else None,
        tag("ul", checks, class_="checks") if checks else None,
        tag("p", belief_text(entry.belief), class_="facts") if entry.belief else None,
        tag("h6", "Feedback") if entry.feedback else None,
        tag("p", cut(entry.feedback, PROSE_LIMIT), class_="prose") if entry.feedback else None,
        failure_section(entry),
    )


def _written_on(entry: Round) -> Html | None:
    """Show the diagnosis that a designer wrote for this very round; measured ones stand with the task."""
    return _diagnosis(entry.diagnosis) if entry.prediction is not None else None


def _candidate(candidate: Candidate) -> Html:
    facts = candidate_line(candidate)
    stage, contract = candidate.in_env_actions, candidate.contract_source
    return join(
        tag("p", cut(facts, PROSE_LIMIT), class_="facts") if facts else None,
        join(tag("h6", "Stage actions"), action_list(stage)) if stage else None,
        join(tag("h6", "Contract"), python_source(contract)) if contract else None,
        None if stage or contract else tag("p", "Changes nothing: the identity.", class_="muted"),
    )


def _stack_below(stack: StackSpec) -> Html | None:
    """Show what was already around the environment before this run; nothing for a bare one."""
    names = stack_names(stack.stack)
    if len(names) == 1:
        return None
    return tag(
        "section",
        tag("h4", "Built on"),
        tag("p", "Innermost first: ", [join(" → " if at else "", tag("code", name)) for at, name in enumerate(names)]),
    )


def stack_names(node: EnvironmentNode | WrappedNode | ChainedNode) -> list[str]:
    """Name the parts of a stack, innermost first; the segments of a chain stand in one name."""
    if isinstance(node, WrappedNode):
        return [*stack_names(node.inner), cut(node.component, NAME_LIMIT)]
    if isinstance(node, ChainedNode):
        segments = (" in ".join(reversed(stack_names(segment))) for segment in node.segments)
        return [cut(f"{node.component} of {'; '.join(segments)}", NAME_LIMIT)]
    return [cut(node.id, NAME_LIMIT)]


def _trajectories(result: TaskResult, identifier: str, page: TaskPage) -> Html | None:
    """Show a win and a loss on the accepted stack; where none was accepted, on the last batch that was played."""
    accepted = accepted_round(result)
    measured = [entry for entry in result.rounds if entry.measured and entry.measured.episodes]
    if accepted and accepted.measured:
        batch, where = accepted.measured.episodes, "on the accepted stack"
    elif measured and measured[-1].measured:
        batch, where = measured[-1].measured.episodes, f"in round {measured[-1].number}, which was not accepted"
    else:
        batch, where = result.baseline.episodes, "on the base stack"
    chosen = [page.store.get_episode(key) for key in choose_pair(page.store.episode_notes(batch))]
    episodes = [episode for episode in chosen if episode is not None]
    if not episodes:
        return None
    return tag(
        "section",
        tag("h4", f"{_pair_name(episodes)} {where}"),
        comparison(episodes, identifier, page.caps),
    )


def _pair_name(episodes: Sequence[Episode]) -> str:
    names = {"success": "win", "failure": "loss", "invalid": "invalid rollout"}
    kinds = [names[seen.outcome.kind] for seen in episodes]
    if len(kinds) == 1:
        return f"One {kinds[0]}"
    if kinds[0] == kinds[1]:
        return {"win": "Two wins", "loss": "Two losses"}.get(kinds[0], "Two invalid rollouts")
    return f"A {kinds[0]} and {'an' if kinds[1].startswith('i') else 'a'} {kinds[1]}"
