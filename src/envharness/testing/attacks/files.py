"""Attacks on files, secrets and the environment of the process."""

from __future__ import annotations

from envharness.testing.attacks.attack import SCRATCH, SECRET, Attack, Control, Layer, in_filter_action

_REFUSED = (Layer.SECCOMP, Layer.LANDLOCK)


def _file(name: str, body: str) -> Attack:
    return Attack(name, "files", in_filter_action(body), _REFUSED)


FILES = (
    _file("file-read", "proof = open('/etc/passwd').read()[:20]"),
    _file("file-read-raw", "proof = os.read(os.open('/etc/passwd', 0), 20)"),
    _file("file-write", f"proof = open('{SCRATCH}/written', 'w').write('x')"),
    _file("file-append", f"proof = open('{SCRATCH}/victim', 'a').write('x')"),
    _file("file-stat", "proof = os.stat('/etc/passwd').st_size"),
    _file("file-chmod", f"proof = os.chmod('{SCRATCH}/victim', 0o707)"),
    _file("file-unlink", f"proof = os.unlink('{SCRATCH}/victim')"),
    _file("file-rename", f"proof = os.rename('{SCRATCH}/victim', '{SCRATCH}/renamed')"),
    _file("file-mkdir", f"proof = os.mkdir('{SCRATCH}/folder')"),
    _file("file-symlink", f"proof = os.symlink('/etc/passwd', '{SCRATCH}/link')"),
    _file("file-truncate", f"proof = os.truncate('{SCRATCH}/victim', 0)"),
    _file("file-utime", f"proof = os.utime('{SCRATCH}/victim', (0, 0))"),
    _file("folder-list", "proof = len(os.listdir('/'))"),
    _file("folder-change", "proof = os.chdir('/')"),
    _file("proc-own-environment", "proof = len(open('/proc/self/environ', 'rb').read())"),
    _file("proc-parent-memory", "proof = open(f'/proc/{os.getppid()}/maps', 'rb').readline()"),
    _file("ctypes-open", "proof = call('open', b'/etc/passwd', 0)"),
    _file("import-from-disk", "proof = load('colorsys')"),
    _file(
        "subclasses-walk",
        f"""
        wrapper = [c for c in ().__class__.__base__.__subclasses__() if c.__name__ == '_wrap_close'][0]
        proof = wrapper.__init__.__globals__['open']('{SCRATCH}/walked', 577)
    """,
    ),
    _file(
        "finalizer",
        f"""
        class Late:
            def __del__(self):
                try:
                    os.close(os.open('{SCRATCH}/finalized', os.O_CREAT | os.O_WRONLY))
                except OSError as error:
                    notes.append(error)
        notes = []
        late = Late()
        late.itself = late
        del late
        load('gc').collect()
        if notes: raise notes[0]
        proof = os.path.exists('{SCRATCH}/finalized')
    """,
    ),
    Attack(
        "import-os",
        "files",
        "import os\n" + in_filter_action("proof = os.getpid()"),
        (Layer.IMPORT_GATE,),
        Control.NAIVE,
    ),
    Attack(
        "environment-variables",
        "files",
        in_filter_action(f"""
            assert '{SECRET}' in ''.join(os.environ.values()), 'no secret in the environment'
            proof = 'secret'
        """),
        (Layer.CLEAN_START,),
        Control.NAIVE,
    ),
    Attack(
        "inherited-descriptors",
        "files",
        in_filter_action(f"""
            proof = None
            for descriptor in range(3, 200):
                try:
                    if b'{SECRET}' in os.pread(descriptor, 100, 0): proof = descriptor
                except OSError:
                    pass
            assert proof is not None, 'no secret in an open file'
        """),
        (Layer.CLEAN_START,),
        Control.NAIVE,
    ),
    Attack(
        "format-string",
        "files",
        in_filter_action(f"""
            proof = '{{0.__class__.reset.__globals__[SECRET]}}'.format(found('environment'))
            assert '{SECRET}' in proof
        """),
        (Layer.PROCESS,),
        Control.NAIVE,
    ),
)
