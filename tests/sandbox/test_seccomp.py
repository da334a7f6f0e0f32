"""The filter allows what its table says and nothing else, on every architecture, whatever this machine is."""

from __future__ import annotations

import struct

import pytest

from envharness.sandbox.seccomp import ALLOW, KILL, REFUSE, build_filter
from envharness.sandbox.syscalls import AARCH64, X86_64, SyscallTable, syscall_table

SOCKET = 3
TABLES = pytest.mark.parametrize("table", [X86_64, AARCH64], ids=["x86_64", "aarch64"])


def run_filter(program: bytes, number: int, arch: int, arguments: tuple[int, ...] = ()) -> int:
    """What the kernel would answer: an interpreter for the five instructions that the filter uses."""
    padded = [*arguments, 0, 0, 0, 0, 0, 0][:6]
    data = struct.pack("<IIQ6Q", number, arch, 0, *(value & 0xFFFFFFFFFFFFFFFF for value in padded))
    instructions = list(struct.iter_unpack("<HBBI", program))
    accumulator = position = 0
    while True:
        code, if_true, if_false, value = instructions[position]
        position += 1
        if code == 0x06:
            return value
        if code == 0x20:
            accumulator = struct.unpack_from("<I", data, value)[0]
        else:
            taken = {0x15: accumulator == value, 0x35: accumulator >= value, 0x45: bool(accumulator & value)}[code]
            position += if_true if taken else if_false


@TABLES
def test_input_and_output_only_on_the_session_socket(table: SyscallTable) -> None:
    program = build_filter(table, SOCKET)
    for number in table.on_socket:
        assert run_filter(program, number, table.audit_arch, (SOCKET,)) == ALLOW
        for other in (0, 1, 2, 4, -1):
            assert run_filter(program, number, table.audit_arch, (other,)) == REFUSE


@TABLES
def test_memory_may_not_be_executable(table: SyscallTable) -> None:
    program = build_filter(table, SOCKET)
    for number in table.not_executable:
        for protection in range(8):
            expected = REFUSE if protection & 4 else ALLOW
            assert run_filter(program, number, table.audit_arch, (0, 4096, protection)) == expected


@TABLES
def test_every_call_that_is_not_in_the_table_is_refused(table: SyscallTable) -> None:
    program = build_filter(table, SOCKET)
    named = {*table.on_socket, *table.not_executable, *table.free}
    for number in range(1024):
        if number not in named:
            assert run_filter(program, number, table.audit_arch, (SOCKET,)) == REFUSE, number
        elif number in table.free:
            assert run_filter(program, number, table.audit_arch) == ALLOW, number


@TABLES
def test_a_foreign_architecture_or_abi_is_killed(table: SyscallTable) -> None:
    program = build_filter(table, SOCKET)
    other = AARCH64 if table is X86_64 else X86_64
    assert run_filter(program, table.free[0], other.audit_arch) == KILL
    assert run_filter(program, table.free[0], 0x40000003) == KILL  # 32-bit x86 on the same processor
    if table.x32_bit is not None:
        assert run_filter(program, table.x32_bit | table.free[0], table.audit_arch) == KILL


def test_an_unknown_machine_has_no_table() -> None:
    assert syscall_table("riscv64") is None
    assert syscall_table("x86_64") is X86_64
