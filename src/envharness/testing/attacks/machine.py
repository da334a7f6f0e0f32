"""Attacks on the network, on other processes and on the kernel."""

from __future__ import annotations

from envharness.testing.attacks.attack import SCRATCH, Attack, Control, Layer, in_filter_action

_OLD_KERNEL = "the kernel, or a container's own filter, refuses this call to everybody here"


def _socket(name: str, body: str) -> Attack:
    return Attack(name, "network", in_filter_action("socket = modules['socket']\n" + body), (Layer.SECCOMP,))


def _process(name: str, body: str, *, not_shown: str = "", stopped_by: tuple[Layer, ...] = (Layer.SECCOMP,)) -> Attack:
    return Attack(name, "processes", in_filter_action(body), stopped_by, not_shown=not_shown)


def _kernel(name: str, body: str, *, not_shown: str = "") -> Attack:
    return Attack(name, "kernel", in_filter_action(body), (Layer.SECCOMP,), not_shown=not_shown)


NETWORK = (
    # The zygote's network namespace, where there is one, has no way out: a control shows that the network is reached,
    # not that a packet left.
    _socket(
        "tcp-connect",
        "client = socket.socket(socket.AF_INET, socket.SOCK_STREAM)\n"
        "client.settimeout(1)\n"
        "proof = client.connect_ex(('127.0.0.1', 9))",
    ),
    _socket(
        "tcp-listen",
        "server = socket.socket(socket.AF_INET, socket.SOCK_STREAM)\n"
        "server.bind(('0.0.0.0', 0))\n"
        "proof = server.listen()",
    ),
    _socket("udp-socket", "proof = socket.socket(socket.AF_INET, socket.SOCK_DGRAM).fileno()"),
    _socket("unix-socket", "proof = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM).bind('\\0hook-attack')"),
    _socket("socket-pair", "proof = socket.socketpair()[0].fileno()"),
    _socket("netlink-socket", "proof = socket.socket(socket.AF_NETLINK, socket.SOCK_RAW).fileno()"),
    _socket("ipv6-socket", "client = socket.socket(socket.AF_INET6, socket.SOCK_DGRAM)\nproof = client.fileno()"),
    _socket(
        "descriptor-over-channel",
        "ours, theirs = socket.socketpair()\nproof = socket.send_fds(ours, [b'x'], [theirs.fileno()])",
    ),
)

PROCESSES = (
    _process("fork", "pid = os.fork()\nif pid == 0: os._exit(0)\nproof = os.waitpid(pid, 0)"),
    _process(
        "fork-bomb",
        "proof = []\nfor _ in range(8):\n    pid = os.fork()\n    if pid == 0: os._exit(0)\n    proof.append(pid)",
    ),
    _process(
        "thread",
        "proof = modules['_thread'].start_new_thread(lambda: None, ())",
        stopped_by=(Layer.PROCESS, Layer.SECCOMP),
    ),
    Attack(
        "exec",
        "processes",
        in_filter_action("os.execv('/bin/sh', ['sh', '-c', 'exit 0'])\nproof = 1"),
        (Layer.SECCOMP,),
        Control.NAIVE,  # a hook process that is another program now cannot report
    ),
    _process("system", f"proof = os.system('echo > {SCRATCH}/system')\nif proof: raise OSError(1, os.strerror(1))"),
    _process("spawn", "proof = os.posix_spawn('/bin/true', ['true'], {})"),
    _process("pipe", "proof = os.pipe()"),
    _process("signal-parent", "proof = os.kill(os.getppid(), 17)"),  # SIGCHLD: the control only knocks
    _process("signal-group", "proof = os.kill(os.getppid(), 0) or os.killpg(os.getpgid(os.getppid()), 0)"),
    _process("signal-handler", "signal = load('signal')\nproof = signal.signal(signal.SIGTERM, signal.SIG_IGN)"),
    _process("alarm", "signal = load('signal')\nproof = signal.setitimer(signal.ITIMER_REAL, 1000)"),
    _process("ptrace", "proof = call('ptrace', 0, 0, 0, 0)", not_shown=_OLD_KERNEL),
    _process("descriptor-of-parent", "proof = os.pidfd_open(os.getppid())"),
    _process("priority", "proof = os.setpriority(os.PRIO_PROCESS, 0, 5)"),
    _process(
        "raise-limits", "resource = load('resource')\nproof = resource.setrlimit(resource.RLIMIT_CPU, (9999, 9999))"
    ),
    _process("become-root", "proof = os.setuid(os.getuid())"),
    _process("clear-death-signal", "proof = call('prctl', 1, 0, 0, 0, 0)"),
)

KERNEL = (
    _kernel(
        "io-uring",
        ("ctypes = load('ctypes')\nbuffer = ctypes.create_string_buffer(256)\nproof = call('syscall', 425, 4, buffer)"),
        not_shown=_OLD_KERNEL,
    ),
    _kernel("memfd", "proof = os.memfd_create('hidden')"),
    _kernel(
        "executable-memory",
        """
        ctypes = load('ctypes')
        libc = ctypes.CDLL(None, use_errno=True)
        libc.mmap.restype = ctypes.c_long
        libc.mmap.argtypes = [ctypes.c_void_p, ctypes.c_size_t, ctypes.c_int, ctypes.c_int, ctypes.c_int, ctypes.c_long]
        proof = libc.mmap(None, 4096, 7, 0x22, -1, 0)
        if proof == -1: raise OSError(ctypes.get_errno(), os.strerror(ctypes.get_errno()))
    """,
    ),
    _kernel(
        "make-executable",
        """
        ctypes = load('ctypes')
        libc = ctypes.CDLL(None, use_errno=True)
        page = (ctypes.addressof(ctypes.create_string_buffer(65536)) + 4095) // 4096 * 4096
        if libc.mprotect(ctypes.c_void_p(page), ctypes.c_size_t(4096), 7):
            raise OSError(ctypes.get_errno(), os.strerror(ctypes.get_errno()))
        proof = page
    """,
    ),
    _kernel("user-namespace", "proof = call('unshare', 0x10000000)", not_shown=_OLD_KERNEL),
    _kernel("shared-memory", "proof = call('shmget', 0, 4096, 0o1600)", not_shown=_OLD_KERNEL),
    _kernel("event-descriptor", "proof = os.eventfd(1)"),
    _kernel(
        "userfault",
        "proof = call('syscall', 282 if os.uname().machine == 'aarch64' else 323, 1)",
        not_shown=_OLD_KERNEL,
    ),
    _kernel("rename-process", "proof = call('prctl', 15, b'renamed', 0, 0, 0)"),
    Attack(
        "foreign-abi",
        "kernel",
        in_filter_action("""
            assert os is not None
            ctypes = load('ctypes')
            proof = ctypes.CDLL(None, use_errno=True).syscall(0x40000000 | 39)
            if proof < 0: raise OSError(ctypes.get_errno(), os.strerror(ctypes.get_errno()))
        """),
        (Layer.SECCOMP, Layer.PROCESS),
        Control.UNGUARDED,
        not_shown="this kernel has no x32 ABI",
    ),
)
