"""Attacks on time, processor, memory and the life of the process."""

from __future__ import annotations

from envharness.testing.attacks.attack import PRELUDE, Attack, Control, Layer, as_contract, in_filter_action

_SHORT = 0.5
_NEWER_PYTHON = "this interpreter bounds the depth of C recursion itself"


def _endless(name: str, body: str, stopped_by: tuple[Layer, ...] = (Layer.DEADLINE,)) -> Attack:
    source = in_filter_action(body + "\nproof = 1")
    return Attack(name, "resources", source, stopped_by, Control.HOLDS_ON, call_seconds=_SHORT)


def _memory(name: str, body: str) -> Attack:
    return Attack(name, "resources", in_filter_action(body), (Layer.RLIMITS,), call_seconds=20.0)


def _deadly(name: str, body: str, *, stopped_by: tuple[Layer, ...] = (Layer.PROCESS,), not_shown: str = "") -> Attack:
    return Attack(name, "resources", in_filter_action(body), stopped_by, Control.NAIVE, not_shown=not_shown)


RESOURCES = (
    _endless("endless-loop", "while True: pass"),
    _endless(
        "endless-loop-that-catches", "while True:\n    try:\n        while True: pass\n    except BaseException: pass"
    ),
    _endless("catastrophic-regex", "import re\nre.match('(a+)+$', 'a' * 60 + 'b')"),
    _endless("huge-integer", "x = 9 ** 9 ** 9"),
    _endless("wait-for-lock", "lock = modules['_thread'].allocate_lock()\nlock.acquire()\nlock.acquire()"),
    _endless("read-own-channel", "found('channel').recv(1)"),
    _endless("endless-iterator", "import itertools\nsum(1 for _ in itertools.count())"),
    _endless("sleep", "modules['time'].sleep(3600)", (Layer.SECCOMP, Layer.DEADLINE)),
    Attack(
        "endless-load",
        "resources",
        "class _Contract(Contract):\n    while True: pass\n",
        (Layer.DEADLINE,),
        Control.HOLDS_ON,
        call_seconds=_SHORT,
    ),
    Attack(
        "hostile-exception-text",
        "resources",
        as_contract("""
            def filter_action(self, action, env_state):
                class Endless(Exception):
                    def __str__(self):
                        while True: pass
                raise Endless
        """),
        (Layer.DEADLINE,),
        Control.HOLDS_ON,
        call_seconds=_SHORT,
    ),
    Attack(
        "cpu-budget",
        "resources",
        in_filter_action("while True: pass\nproof = 1"),
        (Layer.RLIMITS,),
        Control.HOLDS_ON,
        call_seconds=6.0,
        cpu_seconds=1,
    ),
    _memory("huge-bytes", "proof = len(bytearray(2 ** 30))"),
    _memory("huge-list", "proof = len([None] * 2 ** 27)"),
    _memory("huge-string", "text = 'x' * 2 ** 20\nproof = len(text * 2 ** 10)"),
    _memory("memory-kept-in-extras", "env_state.extras['hoard'] = [bytearray(2 ** 26) for _ in range(16)]\nproof = 1"),
    _deadly(
        "deep-recursion",
        """
        enum.sys.setrecursionlimit(10 ** 9)
        nest = []
        for _ in range(10 ** 6): nest = [nest]
        proof = len(repr(nest))
        """,
        stopped_by=(Layer.PROCESS, Layer.RLIMITS),
        not_shown=_NEWER_PYTHON,
    ),
    _deadly("exit-at-once", "os._exit(0)"),
    _deadly("exit-by-exception", "raise SystemExit(0)"),
    _deadly("interrupt", "raise KeyboardInterrupt"),
    _deadly("crash-interpreter", "load('ctypes').string_at(0)"),
    _deadly("abort", "os.abort()"),
    Attack("exit-while-loading", "resources", PRELUDE + "\nos._exit(0)\n", (Layer.PROCESS,), Control.NAIVE),
)
