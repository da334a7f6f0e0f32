"""What a person sees while a run goes on: a bar on a terminal, plain lines elsewhere, nothing where nobody looks."""

from __future__ import annotations

from time import monotonic
from types import TracebackType
from typing import Protocol, Self, TextIO

from envharness.core.messages import printable

LINE_SECONDS = 10.0
"""Plain output counts at most this often."""


class Progress(Protocol):
    """Takes the news of a run. A context manager; nothing in it may fail because of what it is told."""

    def begin(self, activity: str, total: int | None = None) -> None:
        """A new activity starts, such as `baseline`; `total` is how many units it has, None where unknown."""
        ...

    def advance(self, amount: int = 1, note: str = "") -> None:
        """So many more units are done; `note` says how things stand, such as `3 accepted`."""
        ...

    def say(self, line: str) -> None:
        """Something worth a line of its own."""
        ...

    def __enter__(self) -> Self: ...

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None: ...


class SilentProgress:
    """Says nothing."""

    def begin(self, activity: str, total: int | None = None) -> None:
        """Say nothing."""

    def advance(self, amount: int = 1, note: str = "") -> None:
        """Say nothing."""

    def say(self, line: str) -> None:
        """Say nothing."""

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        """Nothing to end."""


class PlainProgress(SilentProgress):
    """Writes lines: each `say`, and the count now and then and at the end of an activity."""

    def __init__(self, stream: TextIO) -> None:
        self._stream = stream
        self._activity = ""
        self._total: int | None = None
        self._done = 0
        self._written: int | None = None
        self._due = 0.0
        self._note = ""

    def begin(self, activity: str, total: int | None = None) -> None:
        """Finish the count before, and start a new one."""
        self._write_count()
        self._activity, self._total, self._done, self._note = activity, total, 0, ""
        self._written = 0
        self._due = monotonic() + LINE_SECONDS

    def advance(self, amount: int = 1, note: str = "") -> None:
        """Count; write where it is time to, or all is done."""
        self._done += amount
        self._note = note
        if self._done == self._total or monotonic() >= self._due:
            self._write_count()

    def say(self, line: str) -> None:
        """Write the line, with control characters made visible."""
        self._stream.write(f"{printable(line)}\n")
        self._stream.flush()

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        """Write the last count."""
        self._write_count()

    def _write_count(self) -> None:
        if self._written is None or self._written == self._done:
            return
        of_total = "" if self._total is None else f"/{self._total}"
        self.say(f"{self._activity}: {self._done}{of_total}" + (f" ({self._note})" if self._note else ""))
        self._written = self._done
        self._due = monotonic() + LINE_SECONDS


class BarProgress(SilentProgress):
    """A bar at the bottom of a terminal, with lines passing above it."""

    def __init__(self, stream: TextIO) -> None:
        from rich.console import Console
        from rich.progress import BarColumn, MofNCompleteColumn, TextColumn, TimeElapsedColumn
        from rich.progress import Progress as RichProgress

        # Markup stays off everywhere: names and notes come from tasks and traces.
        self._bar = RichProgress(
            TextColumn("{task.description}", markup=False),
            BarColumn(),
            MofNCompleteColumn(),
            TimeElapsedColumn(),
            TextColumn("{task.fields[note]}", markup=False),
            console=Console(file=stream, markup=False, highlight=False),
        )
        self._task = None

    def begin(self, activity: str, total: int | None = None) -> None:
        """Start a new bar below those that are full."""
        self._task = self._bar.add_task(printable(activity), total=total, note="")

    def advance(self, amount: int = 1, note: str = "") -> None:
        """Move the bar."""
        if self._task is not None:
            self._bar.update(self._task, advance=amount, note=printable(note))

    def say(self, line: str) -> None:
        """Print a line above the bar."""
        self._bar.console.print(printable(line), markup=False)

    def __enter__(self) -> Self:
        self._bar.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        """Leave the bar as it stands."""
        self._bar.stop()


def make_progress(stream: TextIO) -> Progress:
    """Return a bar where `stream` is a terminal, and plain lines elsewhere."""
    return BarProgress(stream) if stream.isatty() else PlainProgress(stream)
