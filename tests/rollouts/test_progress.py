from __future__ import annotations

import io

import pytest

from envharness.rollouts import progress as module
from envharness.rollouts.progress import BarProgress, PlainProgress, SilentProgress, make_progress


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


def test_plain_lines_say_what_was_said_and_the_count_at_the_end_of_each_activity() -> None:
    out = io.StringIO()
    with make_progress(out) as progress:
        progress.begin("baseline", 3)
        for _ in range(3):
            progress.advance()
        progress.say("task t: accepted")
        progress.begin("rounds")
        progress.advance(2, note="1 accepted")
    assert out.getvalue() == "baseline: 3/3\ntask t: accepted\nrounds: 2 (1 accepted)\n"


def test_plain_lines_count_now_and_then_only(monkeypatch: pytest.MonkeyPatch) -> None:
    now = 0.0
    monkeypatch.setattr(module, "monotonic", lambda: now)
    out = io.StringIO()
    with PlainProgress(out) as progress:
        progress.begin("baseline", 1000)
        for number in range(100):
            now = number * 1.0
            progress.advance()
    assert len(out.getvalue().splitlines()) == 10


def test_a_terminal_gets_a_bar_with_lines_above_it() -> None:
    out = Terminal()
    with make_progress(out) as progress:
        assert isinstance(progress, BarProgress)
        progress.advance()  # before any activity: nothing to move
        progress.begin("baseline", 2)
        progress.advance(2, note="half of them")
        progress.say("a line")
    text = out.getvalue()
    assert "baseline" in text
    assert "2/2" in text
    assert "half of them" in text
    assert "a line" in text


@pytest.mark.parametrize("stream", [io.StringIO, Terminal])
def test_text_from_a_trace_steers_nothing(stream: type[io.StringIO]) -> None:
    out = stream()
    with make_progress(out) as progress:
        progress.begin("[bold]x[/]", 1)
        progress.advance(1, note="\x1b]0;owned\x07 [red]y[/red]")
        progress.say("\x1b[31mred\x1b[0m [link=http://x]z[/link]\r\n\u202e")
    text = out.getvalue()
    assert "\\x1b[31mred\\x1b[0m [link=http://x]z[/link]\\r\\n\\u202e" in text
    assert "\x1b]0;" not in text
    assert "[bold]x[/]" in text


def test_silence(capfd: pytest.CaptureFixture[str]) -> None:
    with SilentProgress() as progress:
        progress.begin("x", 1)
        progress.advance()
        progress.say("x")
    assert capfd.readouterr() == ("", "")
