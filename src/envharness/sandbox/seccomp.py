"""Builds the seccomp filter of a hook process: a classic BPF program, as bytes.

What is not allowed fails with EPERM instead of killing the process: the hook's author (a language model) then gets
"PermissionError ... line 7" back, which it can act on, and nothing is lost, since a refused call has no effect. Calls
through a foreign ABI, which no compiled Python makes, kill the process.
"""

from __future__ import annotations

import errno
import struct

from envharness.sandbox.syscalls import SyscallTable

ALLOW = 0x7FFF0000
REFUSE = 0x00050000 | errno.EPERM
KILL = 0x80000000

_LOAD = 0x20  # BPF_LD | BPF_W | BPF_ABS
_JUMP_EQUAL = 0x15
_JUMP_NOT_LESS = 0x35
_JUMP_ANY_BIT = 0x45
_RETURN = 0x06

_OFFSET_NUMBER = 0
_OFFSET_ARCH = 4
_OFFSET_FIRST_ARGUMENT = 16  # its low half: both architectures are little-endian
_OFFSET_THIRD_ARGUMENT = 32

_PROT_EXEC = 4


def _instruction(code: int, value: int, if_true: int = 0, if_false: int = 0) -> bytes:
    return struct.pack("<HBBI", code, if_true, if_false, value)


def build_filter(table: SyscallTable, socket_descriptor: int) -> bytes:
    """The program for `table`: I/O only on `socket_descriptor`, no executable memory, all else EPERM.

    Each block tests one number and returns, so that no jump has a distance to compute. The calls that a session makes
    most come first, because the kernel runs the program from the top at each call.
    """
    blocks = [
        _instruction(_LOAD, _OFFSET_ARCH),
        _instruction(_JUMP_EQUAL, table.audit_arch, 1, 0),
        _instruction(_RETURN, KILL),
        _instruction(_LOAD, _OFFSET_NUMBER),
    ]
    if table.x32_bit is not None:
        blocks += [_instruction(_JUMP_NOT_LESS, table.x32_bit, 0, 1), _instruction(_RETURN, KILL)]
    for number in table.on_socket:
        blocks += [
            _instruction(_JUMP_EQUAL, number, 0, 4),
            _instruction(_LOAD, _OFFSET_FIRST_ARGUMENT),
            _instruction(_JUMP_EQUAL, socket_descriptor, 0, 1),
            _instruction(_RETURN, ALLOW),
            _instruction(_RETURN, REFUSE),
        ]
    for number in table.not_executable:
        blocks += [
            _instruction(_JUMP_EQUAL, number, 0, 4),
            _instruction(_LOAD, _OFFSET_THIRD_ARGUMENT),
            _instruction(_JUMP_ANY_BIT, _PROT_EXEC, 1, 0),
            _instruction(_RETURN, ALLOW),
            _instruction(_RETURN, REFUSE),
        ]
    for number in table.free:
        blocks += [_instruction(_JUMP_EQUAL, number, 0, 1), _instruction(_RETURN, ALLOW)]
    return b"".join([*blocks, _instruction(_RETURN, REFUSE)])
