"""The system calls a hook process may make, by processor architecture.

The list is what a single-threaded Python that talks on one connected socket needs, and no more. Every call that
names a file, another process, a new descriptor or a new socket is absent. The numbers are the kernel's own
(`asm/unistd_64.h` on x86-64, `asm-generic/unistd.h` on aarch64).
"""

from __future__ import annotations

import platform
from dataclasses import dataclass


@dataclass(frozen=True)
class SyscallTable:
    """One architecture: its audit identity and the numbers of the calls that the filter treats by name."""

    audit_arch: int
    """What the kernel reports as `seccomp_data.arch`."""
    x32_bit: int | None
    """Numbers at or above this belong to a second ABI of the same architecture and are refused; None without one."""
    on_socket: tuple[int, ...]
    """Allowed on the session's socket alone: recvfrom, sendto."""
    not_executable: tuple[int, ...]
    """Allowed unless the third argument asks for executable memory: mmap, mprotect."""
    free: tuple[int, ...]
    """Allowed with any argument: memory, time, randomness, locks inside the process, exit."""


X86_64 = SyscallTable(
    audit_arch=0xC000003E,
    x32_bit=0x40000000,
    on_socket=(45, 44),  # recvfrom, sendto
    not_executable=(9, 10),  # mmap, mprotect
    free=(
        11,  # munmap
        12,  # brk
        25,  # mremap
        28,  # madvise
        15,  # rt_sigreturn
        24,  # sched_yield
        60,  # exit
        231,  # exit_group
        96,  # gettimeofday
        201,  # time
        202,  # futex
        219,  # restart_syscall
        228,  # clock_gettime
        229,  # clock_getres
        318,  # getrandom
    ),
)

AARCH64 = SyscallTable(
    audit_arch=0xC00000B7,
    x32_bit=None,
    on_socket=(207, 206),  # recvfrom, sendto
    not_executable=(222, 226),  # mmap, mprotect
    free=(
        215,  # munmap
        214,  # brk
        216,  # mremap
        233,  # madvise
        139,  # rt_sigreturn
        124,  # sched_yield
        93,  # exit
        94,  # exit_group
        169,  # gettimeofday
        98,  # futex
        128,  # restart_syscall
        113,  # clock_gettime
        114,  # clock_getres
        278,  # getrandom
    ),
)

_TABLES = {"x86_64": X86_64, "aarch64": AARCH64}


def syscall_table(machine: str | None = None) -> SyscallTable | None:
    """The table of `machine` (default: of this one), or None where there is none."""
    return _TABLES.get(platform.machine() if machine is None else machine)
