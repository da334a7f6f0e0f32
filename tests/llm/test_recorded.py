"""The recorded client: K samples stay K answers, what is not on record is an error, and kills lose nothing."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

from envharness.core.errors import ConfigError, MalformedAnswerError
from envharness.core.usage import Usage
from envharness.llm.chat import ChatAnswer, ChatRequest, Message
from envharness.llm.config import Endpoint, ModelConfig
from envharness.llm.make import client_for
from envharness.llm.recorded import RecordedClient
from envharness.llm.recording import Entry, Recording
from envharness.testing import fault_replies
from envharness.testing.fault_server import FaultServer, SeenRequest


def request(key: str = "1/0", text: str = "hi", task: str = "t") -> ChatRequest:
    return ChatRequest(messages=(Message(role="user", content=text),), key=key, task=task)


def numbered(_: SeenRequest, number: int) -> fault_replies.Reply:
    return fault_replies.answer(f"answer {number}")


def ask(config: ModelConfig, *requests: ChatRequest) -> list[ChatAnswer]:
    async def all_of_them() -> list[ChatAnswer]:
        return [await client_for(config).complete(one) for one in requests]

    return asyncio.run(all_of_them())


def test_samples_of_one_prompt_stay_different_and_replay_without_the_model(tmp_path: Path) -> None:
    path = tmp_path / "deep" / "recording.jsonl"
    with FaultServer(numbered) as server:
        source = ModelConfig(model="m", endpoints=(Endpoint(base_url=server.base_url),))
        recording = ModelConfig(client="recorded", recording=str(path), record_from=source)
        first = ask(recording, request("1/0"), request("2/0"), request("1/0"))
        assert [answer.text for answer in first] == ["answer 0", "answer 1", "answer 0"]
        assert len(server.requests) == 2
    replayed = ask(ModelConfig(client="recorded", recording=str(path)), request("2/0"), request("1/0"))
    assert [answer.text for answer in replayed] == ["answer 1", "answer 0"]
    assert replayed[0].usage == first[1].usage


def test_what_is_not_on_record_is_named(tmp_path: Path) -> None:
    path = tmp_path / "recording.jsonl"
    Recording(path).add(Entry(request="other", answer=ChatAnswer(text="x")))
    with pytest.raises(MalformedAnswerError, match=r"policy on 'mug', sample '7/3', 1 messages.*'where is it\?'"):
        ask(ModelConfig(client="recorded", recording=str(path)), request("7/3", "where is it?", "mug"))


def test_a_missing_recording_is_an_error_at_once(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="there is no file"):
        RecordedClient(tmp_path / "none.jsonl")


def test_another_model_does_not_answer_from_this_ones_file(tmp_path: Path) -> None:
    path = str(tmp_path / "recording.jsonl")
    with FaultServer(numbered) as server:
        source = ModelConfig(model="small", endpoints=(Endpoint(base_url=server.base_url),))
        ask(ModelConfig(client="recorded", recording=path, record_from=source), request())
        other = source.model_copy(update={"model": "large"})
        with pytest.raises(ConfigError, match=r"recorded from 'small', and record_from names 'large'"):
            ask(ModelConfig(client="recorded", recording=path, record_from=other), request())


def test_a_failed_call_records_nothing(tmp_path: Path) -> None:
    path = tmp_path / "recording.jsonl"
    with FaultServer.replying(fault_replies.wrong_key()) as server:
        source = ModelConfig(model="m", endpoints=(Endpoint(base_url=server.base_url),))
        with pytest.raises(Exception, match="401"):
            ask(ModelConfig(client="recorded", recording=str(path), record_from=source), request())
    assert not path.exists()


@pytest.mark.parametrize("cut", [1, 20, 60])
def test_a_line_cut_by_a_kill_is_no_entry_and_spoils_none(tmp_path: Path, cut: int) -> None:
    path = tmp_path / "recording.jsonl"
    recording = Recording(path)
    recording.add(Entry(request="a", answer=ChatAnswer(text="one")))
    recording.add(Entry(request="b", answer=ChatAnswer(text="two", usage=Usage(calls=1, prompt=10))))
    path.write_bytes(path.read_bytes()[:-cut])
    resumed = Recording(path)
    assert resumed.find("a") is not None
    assert resumed.find("b") is None
    resumed.add(Entry(request="c", answer=ChatAnswer(text="three")))
    again = Recording(path)
    assert [again.find(key) is not None for key in "abc"] == [True, cut == 1, True]


def test_two_writers_agree_on_the_first_answer(tmp_path: Path) -> None:
    path = tmp_path / "recording.jsonl"
    one, two = Recording(path), Recording(path)
    one.add(Entry(request="a", answer=ChatAnswer(text="first")))
    assert two.add(Entry(request="a", answer=ChatAnswer(text="second"))).answer.text == "first"
    assert len(path.read_bytes().splitlines()) == 1


def test_a_line_of_another_kind_is_an_error(tmp_path: Path) -> None:
    path = tmp_path / "recording.jsonl"
    path.write_text('{"something": "else"}\n')
    with pytest.raises(ConfigError, match="no entry"):
        Recording(path)
