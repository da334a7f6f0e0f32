from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from envharness.llm.chat import ChatAnswer, ToolCall

any_text = st.text(st.characters())


@given(any_text)
def test_what_a_model_wrote_can_be_stored_whatever_it_is(text: str) -> None:
    call = ToolCall(id=text, name=text, arguments=text)
    answer = ChatAnswer(text=text, reasoning=text, tool_calls=(call,))
    assert ChatAnswer.model_validate_json(answer.model_dump_json()) == answer
    if not any("\ud800" <= character <= "\udfff" for character in text):
        assert (answer.text, call.arguments) == (text, text)


def test_half_a_pair_is_replaced_and_a_whole_one_joined() -> None:
    assert ChatAnswer(text="a\ud83d b").text == "a\ufffd b"
    assert ChatAnswer(text="\ud83d\ude00").text == "\U0001f600"
