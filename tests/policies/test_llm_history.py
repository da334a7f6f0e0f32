from __future__ import annotations

from itertools import pairwise

from hypothesis import given
from hypothesis import strategies as st

from envharness.llm.chat import Message, ToolCall
from envharness.policies.history import KEPT_SHARE, History, PastTurn, estimated_tokens


def note_of(missing: str) -> str:
    return f"(Left out: {missing}.)"


WORDS = st.text(min_size=1, max_size=120)


@st.composite
def past_turns(draw: st.DrawFn) -> list[tuple[str, int]]:
    """Turns as their observation and how many calls the answer made; 0 is a plain answer."""
    return draw(st.lists(st.tuples(WORDS, st.integers(0, 3)), max_size=25))


def as_turn(number: int, shown: str, calls: int) -> PastTurn:
    if not calls:
        answered = Message(role="assistant", content=f"answer {number}")
        return PastTurn(answered, (Message(role="user", content=shown),))
    made = tuple(ToolCall(id=f"{number}-{call}", name="act", arguments="{}") for call in range(calls))
    answered = Message(role="assistant", tool_calls=made)
    return PastTurn(answered, tuple(Message(role="tool", content=shown, tool_call_id=call.id) for call in made))


@given(system=WORDS, first=WORDS, told=past_turns(), window=st.none() | st.integers(10, 700), beside=st.integers(0, 50))
def test_the_window_keeps_its_promises_at_every_turn(
    system: str, first: str, told: list[tuple[str, int]], window: int | None, beside: int
) -> None:
    history = History(system, first, tokens=window, cut_note=note_of, beside=beside)
    everything: list[PastTurn] = []
    for number, (shown, calls) in enumerate(told):
        everything.append(as_turn(number, shown, calls))
        history.add(everything[-1])
        sent = history.messages()
        kept = everything[history.left_out :]

        assert sent[0] == Message(role="system", content=system)
        assert sent[1].role == "user"
        # whole turns only, the latest ones: so no result without its call, and no call without its results
        assert sent[2:] == tuple(message for turn in kept for message in turn.messages)
        assert kept
        open_calls: list[str] = []
        for message in sent:
            if message.role == "tool":
                assert message.tool_call_id in open_calls
                open_calls.remove(str(message.tool_call_id))
            else:
                assert open_calls == []
                open_calls = [call.id for call in message.tool_calls]
        assert open_calls == []

        size = estimated_tokens(sent) + beside
        if window is None:
            assert history.left_out == 0
        elif len(kept) > 1 or sent[1].content.startswith(first):
            assert size <= window
        turns = f"{history.left_out} turn{'s' if history.left_out > 1 else ''}"
        if sent[1].content.startswith(first):
            note = note_of(turns) if history.left_out else ""
            assert sent[1].content == (f"{first}\n\n{note}" if note else first)
        else:
            assert "The first observation" in sent[1].content
            assert not history.left_out or turns in sent[1].content


def full(history: History) -> int:
    return estimated_tokens(history.messages())


def test_nothing_is_cut_while_there_is_room() -> None:
    turn = as_turn(0, "seen", 1)
    room = 10 * estimated_tokens(turn.messages)
    history = History("s", "f", tokens=room, cut_note=note_of)
    for number in range(6):
        history.add(as_turn(number, "seen", 1))
    assert history.left_out == 0
    assert "Left out" not in history.messages()[1].content


def test_a_cut_makes_room_for_several_turns_so_that_the_beginning_stays_the_same() -> None:
    history = History("s", "f", tokens=400, cut_note=note_of)
    openings: list[str] = []
    for number in range(60):
        history.add(as_turn(number, "seen", 1))
        openings.append(history.messages()[1].content)
        assert full(history) <= 400
    changes = sum(before != after for before, after in pairwise(openings))
    assert 0 < changes < 60 * (1 - KEPT_SHARE)


def test_what_does_not_fit_at_all_is_sent_all_the_same() -> None:
    history = History("s", "f" * 900, tokens=100, cut_note=note_of)
    assert history.messages()[1].content == "f" * 900
    history.add(as_turn(0, "g" * 900, 1))
    assert history.messages()[1].content == "(Left out: The first observation.)"
    assert history.messages()[-1].content == "g" * 900
