"""A child program that is spoken to in lines: started alone, answered in time, and killed with all it started."""

from __future__ import annotations

import asyncio
import os
import signal
import subprocess
import weakref
from collections.abc import Mapping, Sequence
from contextlib import suppress
from pathlib import Path

from envharness.core.errors import PolicyError
from envharness.core.labels import Label, current_label, end_part

LONGEST_ANSWER = 1 << 20
"""Bytes of a line from the program; more is an error."""
STDERR_TAIL = 2000
"""Bytes of the program's standard error that are kept for messages."""
EXIT_GRACE = 0.5
"""Seconds that a program which closed its output has to exit before it is killed."""


class Program:
    """A running child in a process group of its own. Speaks from one event loop at a time; raises PolicyError.

    The child sees the variables of `environment`, its label (`core/labels.py`) and no others. All that it started dies
    with `close`, which also runs when this object is collected or the interpreter ends: its process group, and what
    left that and still carries the label. (What wiped its own environment, too, ends with the worker it ran in.)
    """

    def __init__(self, command: Sequence[str], *, environment: Mapping[str, str], folder: Path | None) -> None:
        self._name = Path(command[0]).name
        label = current_label().new_part()
        try:
            self._process = subprocess.Popen(  # noqa: S603  running the user's own program is the point
                list(command),
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=subprocess.PIPE,
                env={**environment, **label.variables()},
                cwd=folder,
                start_new_session=True,
                bufsize=0,
            )
        except OSError as error:
            raise PolicyError(
                f"policy program {command[0]!r} cannot be started: {error.strerror or error} (it is looked for on "
                "a minimal PATH; give its full path, or name PATH in `environment`)"
            ) from error
        self._ends = [
            stream.fileno()
            for stream in (self._process.stdin, self._process.stdout, self._process.stderr)
            if stream is not None
        ]
        for end in self._ends:
            os.set_blocking(end, False)
        self._answer = bytearray()
        self._stderr = bytearray()
        self._kill = weakref.finalize(self, _kill_all, self._process, label, os.getpid())

    def close(self) -> None:
        """Kill the program and everything it started. Idempotent."""
        self._kill()

    async def exchange(self, line: bytes, seconds: float) -> bytes:
        """Send one line and return the one that answers it. After an error the program is dead.

        Raises PolicyError: no whole line came within `seconds`, the program ended, the answer was too long, or it had
        written something before it was asked.
        """
        try:
            async with asyncio.timeout(seconds):
                return await self._exchange(line)
        except TimeoutError as error:
            raise self.failure(f"did not answer within {seconds:g} s") from error
        except BaseException:
            self.close()
            raise

    async def _exchange(self, line: bytes) -> bytes:
        if not self._kill.alive:
            raise PolicyError(f"policy program {self._name!r} was closed before")
        self._take_output()
        if self._answer:
            raise self.failure(f"wrote {bytes(self._answer[:80])!r} before it was asked")
        await self._converse(line + b"\n")
        answer, newline, rest = bytes(self._answer).partition(b"\n")
        if not newline:
            raise self.failure(f"{await self._ending()} instead of answering")
        self._answer = bytearray(rest)
        return answer

    async def _converse(self, line: bytes) -> None:
        """Write `line`, and read until a line is there or the output ends, whatever comes first."""
        loop = asyncio.get_running_loop()
        finished: asyncio.Future[None] = loop.create_future()
        stdin, stdout, stderr = self._ends
        waiting = bytearray(line)

        def write() -> None:
            _write_now(stdin, waiting)
            if not waiting:
                loop.remove_writer(stdin)

        def read() -> None:
            more = self._take_output()
            if finished.done():
                return
            if b"\n" in self._answer or not more:
                finished.set_result(None)
            elif len(self._answer) > LONGEST_ANSWER:
                finished.set_exception(self.failure(f"wrote more than {LONGEST_ANSWER} bytes without a line end"))

        def drain() -> None:
            if not self._take_errors():
                loop.remove_reader(stderr)

        loop.add_reader(stdout, read)
        loop.add_reader(stderr, drain)
        loop.add_writer(stdin, write)
        try:
            await finished
        finally:
            loop.remove_reader(stdout)
            loop.remove_reader(stderr)
            loop.remove_writer(stdin)

    def _take_output(self) -> bool:
        """Keep what the program has written. Returns whether more may come."""
        piece = _read_now(self._ends[1])
        self._answer += piece or b""
        return piece != b""

    def _take_errors(self) -> bool:
        """Keep the tail of what the program has complained. Returns whether more may come."""
        piece = _read_now(self._ends[2])
        self._stderr += piece or b""
        del self._stderr[:-STDERR_TAIL]
        return piece != b""

    def _collect_errors(self) -> None:
        """Take what still stands in the pipe; a program that goes on complaining is not listened to for ever."""
        if self._kill.alive:
            for _ in range(64):
                if not self._take_errors():
                    break

    async def _ending(self) -> str:
        """Say how the program ended, which it is given a moment to do."""
        for _ in range(int(EXIT_GRACE / 0.01)):
            if _has_exited(self._process.pid):
                self._collect_errors()
                self.close()
                code = self._process.returncode
                return f"ended with exit code {code}" if code >= 0 else f"was ended by signal {-code}"
            await asyncio.sleep(0.01)
        return "closed its output"

    def failure(self, what: str) -> PolicyError:
        """End the program and return the error that says what it did, with the last of its complaints."""
        self._collect_errors()
        self.close()
        tail = bytes(self._stderr).decode(errors="replace").strip()
        return PolicyError(f"policy program {self._name!r} {what}" + (f"; it said: {tail}" if tail else ""))


def _has_exited(pid: int) -> bool:
    """Look whether a child has ended, without reaping it: its group, killed later, keeps its number until then."""
    return os.waitid(os.P_PID, pid, os.WEXITED | os.WNOWAIT | os.WNOHANG) is not None


def _read_now(end: int) -> bytes | None:
    """Return what can be read at once: None where nothing is there yet, empty at the end."""
    try:
        return os.read(end, 1 << 16)
    except BlockingIOError:
        return None


def _write_now(end: int, waiting: bytearray) -> None:
    """Write what can be written at once, and take it off `waiting`."""
    try:
        del waiting[: os.write(end, waiting)]
    except BlockingIOError:
        return
    except OSError:
        # The program closed its input; whether it answers all the same shows on its output.
        waiting.clear()


def _kill_all(process: subprocess.Popen[bytes], label: Label, owner: int) -> None:
    """Kill a program with its group and what left it, and reap it. Does nothing in a process that did not start it."""
    if os.getpid() != owner:
        return
    with suppress(ProcessLookupError):
        os.killpg(process.pid, signal.SIGKILL)
    process.wait()
    end_part(label)
    for stream in (process.stdin, process.stdout, process.stderr):
        if stream is not None:
            stream.close()
