"""Confines the calling process for good: rlimits, lesser user, no_new_privs, Landlock, seccomp.

Runs in a freshly forked, single-threaded hook process, before any hook source is there. The C library, the Landlock
ruleset and the filter are made ready by `Guard()` in the zygote, so that a fork does nothing but system calls.
"""

from __future__ import annotations

import ctypes
import fcntl
import os
import resource
import signal
from dataclasses import dataclass, field

from envharness.sandbox.seccomp import build_filter
from envharness.sandbox.syscalls import syscall_table

RLIMITS = "rlimits"
LESSER_USER = "lesser_user"
PARENT_DEATH = "parent_death"
NO_NEW_PRIVS = "no_new_privs"
LANDLOCK = "landlock"
SECCOMP = "seccomp"
NAMESPACES = "namespaces"

REQUIRED_LAYERS = (RLIMITS, PARENT_DEATH, NO_NEW_PRIVS, LANDLOCK, SECCOMP)
"""Without one of these no hook source is read. The others are added where the system allows them."""

_PR_SET_PDEATHSIG = 1
_PR_SET_SECCOMP = 22
_PR_SET_NO_NEW_PRIVS = 38
_SECCOMP_MODE_FILTER = 2

_CLOSE_RANGE = 436  # the same numbers on every architecture
_LANDLOCK_CREATE_RULESET = 444
_LANDLOCK_RESTRICT_SELF = 446
_LANDLOCK_VERSION_FLAG = 1

_CAP_KILL, _CAP_SETGID, _CAP_SETUID = 5, 6, 7
_NOBODY = 65534

_NAMESPACE_FLAGS = {"network": 0x40000000, "ipc": 0x08000000, "uts": 0x04000000}


@dataclass
class GuardReport:
    """What held and what did not. `applied` maps a layer to a detail, `missing` a layer to the reason."""

    applied: dict[str, str] = field(default_factory=dict[str, str])
    missing: dict[str, str] = field(default_factory=dict[str, str])

    def missing_required(self) -> dict[str, str]:
        """The part of `missing` without which the process must not go on."""
        return {layer: reason for layer, reason in self.missing.items() if layer in REQUIRED_LAYERS}


class _FilterProgram(ctypes.Structure):
    """`struct sock_fprog`."""

    _fields_ = (("length", ctypes.c_ushort), ("filter", ctypes.c_void_p))


class _LandlockRuleset(ctypes.Structure):
    """`struct landlock_ruleset_attr`."""

    _fields_ = (("files", ctypes.c_uint64), ("network", ctypes.c_uint64), ("scoped", ctypes.c_uint64))


def _landlock_ruleset(abi: int) -> tuple[_LandlockRuleset, int]:
    """Everything that Landlock of version `abi` can take away, and the size of the structure that it knows."""
    files = 0x1FFF
    for version, bit in ((2, 13), (3, 14), (5, 15)):
        if abi >= version:
            files |= 1 << bit
    ruleset = _LandlockRuleset(files, 3 if abi >= 4 else 0, 3 if abi >= 6 else 0)  # noqa: PLR2004  ABI versions
    return ruleset, 24 if abi >= 6 else 16 if abi >= 4 else 8  # noqa: PLR2004  ABI versions


def _effective_capabilities() -> int:
    """The bit mask of this process's effective capabilities, 0 when it cannot be read."""
    try:
        with open("/proc/self/status", encoding="ascii") as status:  # noqa: PTH123  pathlib is not needed in the child
            for line in status:
                if line.startswith("CapEff:"):
                    return int(line.split()[1], 16)
    except OSError:
        return 0
    return 0


class Guard:
    """The layers, made ready once. Linux only: `OSError` where the C library has no `prctl`."""

    def __init__(self, socket_descriptor: int) -> None:
        libc = ctypes.CDLL(None, use_errno=True)
        if not hasattr(libc, "prctl"):
            raise OSError("this system has no prctl; hooks can be confined on Linux only")
        self._libc = libc
        self._socket_descriptor = socket_descriptor
        table = syscall_table()
        self._filter = build_filter(table, socket_descriptor) if table else b""
        self._filter_buffer = ctypes.create_string_buffer(self._filter, len(self._filter))
        wanted = (1 << _CAP_KILL) | (1 << _CAP_SETGID) | (1 << _CAP_SETUID)
        # CAP_KILL too: a root without it could not end a process of another user.
        self._can_change_user = os.geteuid() == 0 and _effective_capabilities() & wanted == wanted
        self._landlock_abi = 0
        self._landlock_problem = ""
        self.ruleset: int | None = None
        """The descriptor of the Landlock ruleset, which a hook process inherits, applies and closes; None without."""
        try:
            self.ruleset = self._create_ruleset()
        except OSError as error:
            self._landlock_problem = str(error)

    def close_descriptors(self, lowest: int, keep: int | None) -> bool:
        """Close every descriptor from `lowest` on but `keep`, at once; False where the kernel cannot."""
        gaps = [(lowest, 0xFFFFFFFF)]
        if keep is not None and keep >= lowest:
            gaps = [(lowest, keep - 1)] if keep > lowest else []
            gaps.append((keep + 1, 0xFFFFFFFF))
        try:
            for first, last in gaps:
                self._syscall(_CLOSE_RANGE, first, last, 0)
        except OSError:
            return False
        return True

    def leave_namespaces(self) -> GuardReport:
        """Leave the network, IPC and UTS namespaces, as far as this system lets us. For the zygote, once."""
        report = GuardReport()
        left: list[str] = []
        for name, flag in _NAMESPACE_FLAGS.items():
            if self._libc.unshare(ctypes.c_int(flag)) == 0:
                left.append(name)
            else:
                report.missing[NAMESPACES] = f"unshare: {os.strerror(ctypes.get_errno())}"
        if left:
            report.applied[NAMESPACES] = ", ".join(left)
            report.missing.clear()
        return report

    def die_with_parent(self, parent: int) -> str:
        """Have the kernel kill this process when process `parent` ends; `OSError` when it is gone already."""
        self._prctl(_PR_SET_PDEATHSIG, int(signal.SIGKILL))
        if os.getppid() != parent:
            raise OSError("the zygote is gone")
        return "the kernel kills it with the zygote"

    def apply(self, *, memory_bytes: int, cpu_seconds: int, parent: int) -> GuardReport:
        """Apply all layers, the strictest last. Never raises: read `missing_required()` and stop if it is not empty."""
        report = GuardReport()
        steps = (
            (RLIMITS, lambda: self._limit_resources(memory_bytes, cpu_seconds)),
            (LESSER_USER, self._become_nobody),
            (PARENT_DEATH, lambda: self.die_with_parent(parent)),  # a change of user would clear it
            (NO_NEW_PRIVS, self._forbid_new_privileges),
            (LANDLOCK, self._restrict_files),
            (SECCOMP, self._filter_system_calls),
        )
        for layer, step in steps:
            try:
                report.applied[layer] = step()
            except (OSError, ValueError) as error:
                report.missing[layer] = str(error)
        if SECCOMP in report.applied and self._can_see_files():
            del report.applied[SECCOMP]
            report.missing[SECCOMP] = "the filter was accepted, but does not hold"
        return report

    def _prctl(self, option: int, *arguments: object) -> None:
        padded = [*arguments, 0, 0, 0, 0][:4]
        values = [ctypes.c_ulong(value) if isinstance(value, int) else value for value in padded]
        if self._libc.prctl(ctypes.c_int(option), *values) != 0:
            number = ctypes.get_errno()
            raise OSError(number, os.strerror(number))

    def _syscall(self, number: int, *arguments: object) -> int:
        values = [ctypes.c_long(value) if isinstance(value, int) else value for value in arguments]
        result = int(self._libc.syscall(ctypes.c_long(number), *values))
        if result < 0:
            error = ctypes.get_errno()
            raise OSError(error, os.strerror(error))
        return result

    def _limit_resources(self, memory_bytes: int, cpu_seconds: int) -> str:
        limits = {
            resource.RLIMIT_AS: memory_bytes,
            resource.RLIMIT_CPU: cpu_seconds,
            resource.RLIMIT_CORE: 0,
            resource.RLIMIT_FSIZE: 0,
            resource.RLIMIT_NOFILE: self._socket_descriptor + 1,
            resource.RLIMIT_NPROC: 0,
            resource.RLIMIT_MEMLOCK: 0,
        }
        for kind, wanted in limits.items():
            ceiling = resource.getrlimit(kind)[1]
            limit = wanted if ceiling == resource.RLIM_INFINITY else min(wanted, ceiling)
            # Soft and hard alike: at the CPU limit the kernel then kills, with no signal to catch before it.
            resource.setrlimit(kind, (limit, limit))
        return f"{memory_bytes // 2**20} MiB of memory, {cpu_seconds} s of CPU, no new files or processes"

    def _become_nobody(self) -> str:
        if not self._can_change_user:
            raise OSError("not needed" if os.geteuid() else "root without the capabilities to change user")
        os.setgroups([])
        os.setresgid(_NOBODY, _NOBODY, _NOBODY)
        os.setresuid(_NOBODY, _NOBODY, _NOBODY)
        return "root became nobody, without capabilities"

    def _forbid_new_privileges(self) -> str:
        self._prctl(_PR_SET_NO_NEW_PRIVS, 1)
        return "set"

    def _create_ruleset(self) -> int:
        self._landlock_abi = self._syscall(_LANDLOCK_CREATE_RULESET, None, 0, _LANDLOCK_VERSION_FLAG)
        attributes, size = _landlock_ruleset(self._landlock_abi)
        descriptor = self._syscall(_LANDLOCK_CREATE_RULESET, ctypes.byref(attributes), size, 0)
        try:
            # Out of the way of the socket, which will be put at its number.
            return fcntl.fcntl(descriptor, fcntl.F_DUPFD_CLOEXEC, self._socket_descriptor + 1)
        finally:
            os.close(descriptor)

    def _restrict_files(self) -> str:
        if self.ruleset is None:
            raise OSError(self._landlock_problem)
        try:
            self._syscall(_LANDLOCK_RESTRICT_SELF, self.ruleset, 0)
        finally:
            os.close(self.ruleset)
        return f"no rule, ABI {self._landlock_abi}"

    def _filter_system_calls(self) -> str:
        if not self._filter:
            raise OSError("no system call table for this processor architecture")
        program = _FilterProgram(len(self._filter) // 8, ctypes.addressof(self._filter_buffer))
        self._prctl(_PR_SET_SECCOMP, _SECCOMP_MODE_FILTER, ctypes.byref(program))
        return "allow-list, all else EPERM"

    def _can_see_files(self) -> bool:
        try:
            os.stat("/")  # noqa: PTH116  the bare system call is the point
        except PermissionError:
            return False
        return True
