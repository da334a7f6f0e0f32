"""Answers of models, read with tolerance: what is there is found, what is not is said."""

from __future__ import annotations

import json
from collections.abc import Callable

import pytest
from hypothesis import given
from hypothesis import strategies as st

from envharness.core.types import Action, JsonDict
from envharness.llm.chat import ChatAnswer, ToolCall
from envharness.rigger.designers.llm_answers import (
    UnusableAnswerError,
    label_name,
    read_candidate,
    read_diagnosis,
    read_labels,
    read_object,
)
from rigger.author import DIAGNOSIS

SOURCE = "class _Contract(Contract):\n    pass\n"
BARE: JsonDict = {"in_env_actions": [], "contract_source": SOURCE, "rationale": "because"}


def called(arguments: str, name: str = "propose_component") -> ChatAnswer:
    return ChatAnswer(tool_calls=(ToolCall(id="1", name=name, arguments=arguments),))


@pytest.mark.parametrize(
    "answer",
    [
        called(json.dumps(BARE)),
        called(json.dumps(BARE), name="another_name"),
        ChatAnswer(text=json.dumps(BARE)),
        ChatAnswer(text=f"Here it is:\n```json\n{json.dumps(BARE, indent=2)}\n```\nGood luck."),
        ChatAnswer(text=f'<think>{{"contract_source": "wrong"}}</think>{json.dumps(BARE)}'),
        ChatAnswer(text=f'{{"contract_source": "its thought was opened by the prompt"}}</think>{json.dumps(BARE)}'),
        ChatAnswer(text=f"Of the set {{1, 2}} I choose {json.dumps(BARE)}"),
        ChatAnswer(text=json.dumps(BARE).replace("\\n", "\n")),
        ChatAnswer(text=json.dumps({**BARE, "contract_source": f"```python\n{SOURCE}```"})),
        ChatAnswer(text=f"I write this:\n```python\n{SOURCE}```\n"),
        ChatAnswer(text=f'{{"in_env_actions": [], "rationale": "because"}}\n```python\n{SOURCE}```'),
        called(json.dumps({**BARE, "in_env_actions": None, "thought": "unasked"})),
        called(json.dumps({**BARE, "in_env_actions": "[]"})),
    ],
)
def test_a_candidate_is_found_wherever_it_stands(answer: ChatAnswer) -> None:
    candidate = read_candidate(answer)
    assert (candidate.in_env_actions, candidate.contract_source) == ([], SOURCE)


@pytest.mark.parametrize(
    "action",
    [
        {"name": "go", "kwargs": {"to": "hall"}},
        {"name": "go", "arguments": {"to": "hall"}},
        {"tool": "go", "args": {"to": "hall"}},
        {"name": "go", "arguments": '{"to": "hall"}'},
        {"type": "function", "function": {"name": "go", "arguments": '{"to": "hall"}'}},
        '{"name": "go", "parameters": {"to": "hall"}}',
    ],
)
def test_actions_are_read_in_the_spellings_in_use(action: JsonDict | str) -> None:
    answer = ChatAnswer(text=json.dumps({**BARE, "in_env_actions": [action]}))
    assert read_candidate(answer).in_env_actions == [Action(name="go", kwargs={"to": "hall"})]


@pytest.mark.parametrize(
    ("answer", "said"),
    [
        (ChatAnswer(text="I cannot help with that."), "no tool call and no JSON object"),
        (ChatAnswer(), "empty answer"),
        (ChatAnswer(text="<think>never closed {"), "empty answer"),
        (ChatAnswer(text='{"source": "x"}'), "no 'contract_source' or 'in_env_actions'"),
        (ChatAnswer(text=f"```python\n{SOURCE}", finish_reason="length"), "cut at the token limit"),
        (called('{"contract_source": "cla'), "no tool call and no JSON object|empty answer"),
        (ChatAnswer(text='{"contract_source": 7}'), "contract_source: Input should be a valid string"),
        (ChatAnswer(text='{"in_env_actions": ["jump"]}'), "in_env_actions.0"),
        (ChatAnswer(text='{"in_env_actions": {"name": "go"}}'), "in_env_actions: Input should be a valid list"),
        (ChatAnswer(text='{"contract_source":' + "[" * 100_000), "no tool call and no JSON object"),
    ],
)
def test_what_is_no_candidate_is_said(answer: ChatAnswer, said: str) -> None:
    with pytest.raises(UnusableAnswerError, match=said):
        read_candidate(answer)


def explains(answer: ChatAnswer) -> list[str]:
    """Read an answer in every way; what comes back is what was read or why it was not."""
    found: list[str] = []
    readers: tuple[Callable[[], object], ...] = (
        lambda: read_candidate(answer),
        lambda: read_diagnosis(answer, {0: 3}),
        lambda: read_labels(answer, [0]),
    )
    for read in readers:
        try:
            found.append(repr(read()))
        except UnusableAnswerError as error:
            found.append(str(error))
    return found


@given(st.text(max_size=300), st.text(max_size=300))
def test_no_answer_breaks_the_reader(text: str, arguments: str) -> None:
    answer = ChatAnswer(text=text, tool_calls=(ToolCall(id="", name="", arguments=arguments),))
    assert all(explains(answer))


@given(
    st.recursive(
        st.none() | st.integers() | st.text(max_size=9),
        lambda inner: (
            st.lists(inner, max_size=3)
            | st.dictionaries(
                st.sampled_from(
                    ["flaw", "evidence", "steps", "failures", "in_env_actions", "contract_source", "name", "x"]
                ),
                inner,
                max_size=5,
            )
        ),
        max_leaves=12,
    )
)
def test_no_json_breaks_the_reader(value: object) -> None:
    answer = ChatAnswer(text=json.dumps({"flaw": value, "in_env_actions": value, "failures": value, "evidence": value}))
    assert all(explains(answer))


def test_evidence_that_was_never_shown_is_dropped() -> None:
    cited = [{"rollout": 0, "steps": [1, 7]}, {"rollout": 3, "steps": [0]}, {"rollout": 1, "steps": [-1, 0]}]
    written = read_diagnosis(ChatAnswer(text=json.dumps({**DIAGNOSIS, "evidence": cited})), {0: 3, 1: 1})
    assert [(item.rollout, item.steps) for item in written.evidence] == [(0, [1]), (1, [0])]


def test_labels_are_names_and_of_lost_rollouts_only() -> None:
    labels = [
        {"rollout": 2, "axis": "planning", "label": "No plan!", "sentence": "s"},
        {"rollout": 2, "axis": "memory", "label": "second opinion", "sentence": "s"},
        {"rollout": 0, "axis": "planning", "label": "won", "sentence": "s"},
    ]
    read = read_labels(ChatAnswer(text=json.dumps({"failures": labels})), [1, 2])
    assert [(label.rollout, label.label) for label in read] == [(2, "no_plan")]
    with pytest.raises(UnusableAnswerError, match="labels none of the lost rollouts"):
        read_labels(ChatAnswer(text=json.dumps({"failures": labels})), [7])


@given(st.text(max_size=100))
def test_a_label_is_a_name(text: str) -> None:
    name = label_name(text)
    assert name
    assert name == label_name(name)
    assert " " not in name


def test_the_first_object_with_a_wanted_key_counts() -> None:
    answer = ChatAnswer(text='{"a": 1} {"b": {"flaw": 2}} {"flaw": 3} {"flaw": 4}')
    assert read_object(answer, "flaw") == {"flaw": 3}
