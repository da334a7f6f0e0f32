"""What an attack on the sandbox is, and what came of it."""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import Enum
from textwrap import dedent, indent

SCRATCH = "@SCRATCH@"
"""Stands in an attack's source for the folder that it may try to change."""

SECRET = "planted-secret-4711"  # noqa: S105  bait, not a secret
"""What attacks on secrets look for: in a variable of the environment, in an open file, in a module's globals."""

BREACH = "BREACH"
"""The word by which an attack says that it got what it wanted."""

PRELUDE = dedent("""
    import enum

    modules = enum.sys.modules
    os = modules["os"]

    def load(name):
        return modules["builtins"].__import__(name)

    def call(function, *arguments):
        ctypes = load("ctypes")
        result = getattr(ctypes.CDLL(None, use_errno=True), function)(*arguments)
        if result < 0:
            raise OSError(ctypes.get_errno(), os.strerror(ctypes.get_errno()))
        return result

    def found(name):
        frame = enum.sys._getframe()
        while frame:
            if name in frame.f_locals and frame.f_locals is not frame.f_globals:
                return frame.f_locals[name]
            frame = frame.f_back
        raise LookupError(name)

    FORGED = b'{"blocked":{"reason":"BREACH forged"}}'
    HONEST = b'{"action":{"name":"work","kwargs":{}}}'

    def frame(number, body, length=None, body_length=None):
        length = len(body) if length is None else length
        body_length = length if body_length is None else body_length
        return load("struct").pack("<III", length, number, body_length) + body

    def send(data):
        found("channel").sendall(data)
""")
"""Ways out that every attack may use: past the import gate, to the C library, to the session's socket."""


class Layer(Enum):
    """What stops an attack."""

    IMPORT_GATE = "import gate"
    LANDLOCK = "landlock"
    SECCOMP = "seccomp"
    RLIMITS = "rlimits"
    CLEAN_START = "clean start"
    PROCESS = "process boundary"
    DEADLINE = "deadline"
    FRAMES = "frame checks"
    REPLIES = "reply checks"


class Control(Enum):
    """How it is shown that an attack works where nothing stops it."""

    UNGUARDED = "a hook process without the kernel layers"
    HOLDS_ON = "the same, in which it lasts as long as it is let"
    NAIVE = "a harness that runs hooks in the environment's own process and believes them"
    TRUSTING = "a client that reads replies without checks or deadline"


@dataclass(frozen=True)
class Attack:
    """One hostile contract."""

    name: str
    kind: str
    source: str
    stopped_by: tuple[Layer, ...]
    """Any of these is what should be seen to stop it: where two layers refuse it, the first one asked answers."""
    control: Control = Control.UNGUARDED
    not_shown: str = ""
    """Why the control may fail on some systems; empty where it must succeed."""
    call_seconds: float = 10.0
    cpu_seconds: int = 30


@dataclass(frozen=True)
class AttackResult:
    """What came of one attack on a confined hook process."""

    name: str
    kind: str
    stopped: bool
    layer: str
    """What was seen to stop it; "none" when it was not stopped."""
    expected: tuple[str, ...]
    detail: str
    """The fault, or what else was seen."""
    harm: tuple[str, ...] = field(default=())
    """What it changed, one line each; empty when it was stopped."""
    control: str = "not run"
    """`succeeds`, `not shown: …` with the reason, `fails` when the attack proves nothing, or `not run`."""
    seconds: float = 0.0


def in_filter_action(body: str) -> str:
    """Source of a contract whose first hook runs `body` and then claims success with the value of `proof`."""
    return (
        f"{PRELUDE}\n\nclass _Contract(Contract):\n    def filter_action(self, action, env_state):\n"
        f"{indent(dedent(body).strip(), ' ' * 8)}\n        return Blocked(reason=f'{BREACH} {{proof}}')\n"
    )


def as_contract(methods: str) -> str:
    """Source of a contract with the given methods, after the prelude."""
    return f"{PRELUDE}\n\nclass _Contract(Contract):\n{indent(dedent(methods).strip(), ' ' * 4)}\n"
