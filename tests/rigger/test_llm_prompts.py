"""The prompts: their worked examples run in the sandbox, and they name what is really in scope."""

from __future__ import annotations

import re

import pytest

from envharness.core.types import Action, Blocked, EnvResponse, JsonDict, Observation
from envharness.rigger.designers.llm_forms import DIAGNOSIS_TOOL, candidate_tool
from envharness.rigger.designers.llm_prompts import how_to_answer, system_prompt
from envharness.sandbox import check_source, open_session
from envharness.sandbox.hook_scope import SCOPE
from rigger.build import TOOLS

SYSTEM = system_prompt("")
EXAMPLES = re.findall(r"```python\n(.*?)```", SYSTEM, re.DOTALL)
STATE: JsonDict = {"room": "hall"}


def call(name: str, **arguments: str) -> Action:
    return Action(name=name, kwargs=dict(arguments))


def test_there_are_examples_of_obstacles_and_of_help() -> None:
    assert len(EXAMPLES) == 4


@pytest.mark.parametrize("source", EXAMPLES)
def test_every_example_is_a_contract(source: str) -> None:
    assert check_source(source).overridden


def test_the_ration_counts() -> None:
    with open_session(EXAMPLES[0], seed=0) as session:
        answers = [session.filter_action(call("search"), STATE) for _ in range(4)]
        assert [isinstance(answer, Blocked) for answer in answers] == [False, False, True, True]
        assert session.filter_action(call("open"), STATE) == call("open")


def test_the_passing_failure_passes_at_the_second_try() -> None:
    with open_session(EXAMPLES[1], seed=0) as session:
        answers = [session.filter_action(call("open", what=what), STATE) for what in ("box", "box", "bag", "bag")]
        assert [isinstance(answer, Blocked) for answer in answers] == [True, False, True, False]


def test_looking_shows_what_was_cut() -> None:
    long = Observation(text="word " * 100)
    with open_session(EXAMPLES[2], seed=0) as session:
        assert len(session.filter_observation(long, STATE).text) < 200
        for name, whole in (("look", True), ("go", False)):
            response = session.after_transition(call(name), EnvResponse(observation=long), STATE)
            assert (response.observation == long) is whole


def test_the_hint_is_given_three_times() -> None:
    with open_session(EXAMPLES[3], seed=0) as session:
        shown = [session.filter_observation(Observation(text="a desk"), STATE).text for _ in range(5)]
    assert ["Hint:" in text for text in shown] == [True, True, True, False, False]


def test_what_the_prompt_says_is_in_scope_is_all_there_is() -> None:
    listed = SYSTEM.partition("In scope without an import:\n")[2].partition("\nYou may import")[0]
    named = set(re.findall(r"^- (\w+)", listed, re.MULTILINE))
    assert named == set(SCOPE) - {"ContractHooks", "Rules"}, "the other two are names of older files"
    assert "import re, json, math, random" in SYSTEM


def test_the_runs_own_instructions_stand_at_the_end() -> None:
    assert system_prompt("Doors squeak.").endswith("# About this benchmark\nDoors squeak.")
    assert "About this benchmark" not in SYSTEM
    assert "$" not in SYSTEM


def test_the_way_to_answer_names_the_tool_or_the_keys() -> None:
    assert "record_diagnosis" in how_to_answer("tool", DIAGNOSIS_TOOL)
    assert "in_env_actions, contract_source, rationale" in how_to_answer("json", candidate_tool(TOOLS))
