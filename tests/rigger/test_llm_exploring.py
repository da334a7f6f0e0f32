"""The exploring designer in whole runs: its Stage is what it walked through, and whatever it reached replays."""

from __future__ import annotations

from pathlib import Path
from typing import Any, cast

import pytest

from envharness.core.errors import ProviderRefusedError
from envharness.core.types import JsonDict, ToolSchema
from envharness.llm.chat import ChatAnswer, ChatRequest, ToolCall
from envharness.rigger.config import RigConfig
from envharness.rigger.designers.exploring import read_move
from envharness.rigger.designers.llm_answers import UnusableAnswerError
from envharness.rigger.records import TaskResult
from envharness.store.database import RunStore
from rigger.author import STUCK, Answer, Author, well_written
from rigger.halls import go
from rigger.test_llm_designer import result_of, run, settings

CONTRACT: JsonDict = {"contract_source": STUCK, "rationale": "Two doors are stuck."}
FINISH: JsonDict = {"tool": "finish_stage"}


def walk(text: str) -> JsonDict:
    return {"tool": "command", "text": text}


def explorer(*moves: Answer, contract: Answer = CONTRACT, refuses_after: int | None = None) -> Author:
    """Answer the explorations with `moves`, one after the other, and finish when they are used up."""
    left = list(moves)

    def write(request: ChatRequest) -> Answer:
        if "/explore-" in request.key:
            move = left.pop(0) if left else FINISH
            return dict(move) if isinstance(move, dict) else move
        return well_written(request, write=dict(contract) if isinstance(contract, dict) else contract)

    return Author(write, refuses_after=refuses_after)


def exploring(**fields: Any) -> RigConfig:
    return settings(id="exploring", rounds=fields.pop("rounds", 1), **fields)


def explored(folder: Path, author: Author, **fields: Any) -> TaskResult:
    run(folder, exploring(**fields), author)
    return result_of(folder, "exploring")


def position(author: Author, turn: int) -> str:
    request = next(r for r in author.asked if r.key.endswith(f"explore-{turn}"))
    return request.messages[-1].content


def test_the_stage_is_what_it_walked_through(tmp_path: Path) -> None:
    author = explorer(walk("walk on"), walk("walk on"))
    candidate = explored(tmp_path, author).rounds[0].candidate
    assert candidate.in_env_actions == [go("walk on"), go("walk on")]
    assert candidate.contract_source.strip() == STUCK.strip()
    assert "room 0" in position(author, 0)
    assert "Stage so far: walk on." in position(author, 1)
    assert "room 2" in position(author, 2)
    assert "walk on; walk on" in author.asked[-2].messages[-1].content, "the Contract is written for that start"


def test_a_move_that_cannot_be_replayed_is_told_and_not_taken(tmp_path: Path) -> None:
    author = explorer(walk("walk on"), walk("fly"), walk("rest"))
    candidate = explored(tmp_path, author).rounds[0].candidate
    assert candidate.in_env_actions == [go("walk on")]
    assert "not taken into the Stage" in position(author, 2)
    assert "stage action 1" in position(author, 2)
    assert "stage action 1" in position(author, 3), "resting ends the episode, so it cannot be part of a Stage"


def test_it_can_go_back_to_the_start(tmp_path: Path) -> None:
    author = explorer(walk("walk on"), walk("walk on"), {"tool": "restart_stage"}, walk("walk on"))
    assert explored(tmp_path, author).rounds[0].candidate.in_env_actions == [go("walk on")]
    assert "nothing yet" in position(author, 3)


def test_a_later_attempt_goes_on_from_the_last_stage(tmp_path: Path) -> None:
    broken = {**CONTRACT, "contract_source": "class _Contract(Contract:"}
    author = explorer(walk("walk on"), FINISH, walk("walk on"), contract=broken)
    rounds = explored(tmp_path, author).rounds
    assert [len(entry.candidate.in_env_actions) for entry in rounds] == [1, 2, 2, 2]
    assert all(entry.verdict == "check_failed" for entry in rounds)
    again = next(r for r in author.asked if "attempt-1/explore-0" in r.key)
    assert "Stage so far: walk on." in again.messages[-1].content


def test_moves_are_bounded(tmp_path: Path) -> None:
    author = explorer(*[walk("walk on"), walk("walk back")] * 9)
    explored(tmp_path, author, options={"moves": 3})
    assert len([r for r in author.asked if "attempt-0/explore-" in r.key]) == 3


def test_answers_without_a_move_are_bounded_and_no_candidate(tmp_path: Path) -> None:
    author = explorer(*["I would rather not."] * 99)
    result = explored(tmp_path, author, check_retries=0)
    assert len([r for r in author.asked if "/explore-" in r.key]) == 3
    assert "no tool call and no JSON object" in result.rounds[0].feedback
    assert "This was no move" in position(author, 1)


def test_a_start_without_a_contract_is_a_candidate(tmp_path: Path) -> None:
    author = explorer(walk("walk on"), contract="The start is enough.")
    candidate = explored(tmp_path, author).rounds[0].candidate
    assert (candidate.in_env_actions, candidate.contract_source) == ([go("walk on")], "")


def test_json_moves_where_there_are_no_tool_calls(tmp_path: Path) -> None:
    act: JsonDict = {"thought": "on", "move": "act", "action": {"name": "command", "kwargs": {"text": "walk on"}}}
    author = explorer(act, {"thought": "enough", "move": "finish"})
    candidate = explored(tmp_path, author, options={"answer_form": "json_schema"}).rounds[0].candidate
    assert candidate.in_env_actions == [go("walk on")]
    assert all(request.json_schema is not None for request in author.asked)


def test_a_run_that_stops_while_exploring_goes_on_to_the_same_content(tmp_path: Path) -> None:
    moves = (walk("walk on"), walk("fly"), walk("walk on"))
    _, content = run(tmp_path / "whole", exploring(), explorer(*moves))
    for kill_at in range(6):
        folder = tmp_path / f"killed-{kill_at}"
        first = explorer(*moves, refuses_after=kill_at)
        with pytest.raises(ProviderRefusedError):
            run(folder, exploring(), first)
        # What was answered is in the store, so the second start needs the rest of the moves only.
        done = sum("/explore-" in request.key for request in first.asked[:kill_at])
        assert run(folder, exploring(), explorer(*moves[done:]))[1] == content


def test_probes_of_an_exploration_are_filed_and_not_counted_as_rollouts(tmp_path: Path) -> None:
    summary, _ = run(tmp_path, exploring(), explorer(walk("walk on")))
    assert summary.rollouts == 10, "baseline and one round"
    with RunStore.read(tmp_path) as store:
        assert len(list(store.episodes(phase="rig/exploring/explore-1"))) == 2


TOOLS = (ToolSchema(name="command"), ToolSchema(name="look"))


@pytest.mark.parametrize(
    ("answer", "wanted"),
    [
        (ChatAnswer(tool_calls=(ToolCall(id="1", name="look", arguments=""),)), {"name": "look", "kwargs": {}}),
        (ChatAnswer(text='{"move": "restart"}'), "restart"),
        (ChatAnswer(text='{"name": "look", "arguments": "{}"}'), {"name": "look", "kwargs": {}}),
        (ChatAnswer(text='{"action": "command", "args": {"text": "x"}}'), {"name": "command", "kwargs": {"text": "x"}}),
    ],
)
def test_moves_are_read_with_tolerance(answer: ChatAnswer, wanted: str | dict[str, Any]) -> None:
    move = read_move(answer, TOOLS)
    assert (move if isinstance(move, str) else move.model_dump()) == wanted


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ('{"name": "fly", "kwargs": {}}', "there is no tool 'fly'; the tools are command, look"),
        ('{"name": "look", "kwargs": [1]}', "action.kwargs"),
        ('{"move": "act"}', "action.name"),
        ('{"move": "act", "action": {"name": ["look"]}}', "action.name"),
    ],
)
def test_what_is_no_move_is_said(text: str, said: str) -> None:
    with pytest.raises(UnusableAnswerError, match=said):
        read_move(ChatAnswer(text=text), cast("tuple[ToolSchema, ...]", TOOLS))
