from __future__ import annotations

from envharness.llm.thoughts import split_thought


def test_a_thought_is_taken_out_of_the_text() -> None:
    assert split_thought("a<think> b </think>c<THINK>d") == ("b\nd", "ac")
    assert split_thought("b</think>c") == ("b", "c")
    assert split_thought("c") == ("", "c")
