"""Turns hook source into a contract object: compile, import gate, class look-up, and faults with their line.

Runs in the hook process only. Hostile source is never compiled anywhere else.
"""

from __future__ import annotations

import builtins
import importlib
import sys
import types
from collections.abc import Mapping, Sequence
from types import CodeType, TracebackType
from typing import Any

from envharness.sandbox.hook_scope import CONTRACT_CLASSES, SCOPE, ContractHooks
from envharness.sandbox.protocol import HOOKS, REASON_CHARACTERS

FILE_NAME = "<hook>"
MODULE_NAME = "hook"

ALLOWED_IMPORTS = (
    "re",
    "json",
    "math",
    "random",
    "string",
    "itertools",
    "functools",
    "collections",
    "dataclasses",
    "typing",
    "datetime",
    "copy",
    "enum",
    "statistics",
    "textwrap",
)
"""Modules that hook source may import; `__future__` and submodules such as `collections.abc` too."""

_LOADED_ON_USE = (
    # What allowed modules and the interpreter import at their first use; the hook process could not read it then.
    *(
        "_strptime",
        "calendar",
        "locale",
        "unicodedata",
        "decimal",
        "fractions",
        "numbers",
        "weakref",
        "collections.abc",
    ),
    *("json.decoder", "json.encoder", "encodings.ascii", "encodings.latin_1", "encodings.utf_16", "encodings.utf_32"),
    *("encodings.unicode_escape", "encodings.raw_unicode_escape", "encodings.idna", "encodings.cp1252", "stringprep"),
)

_FROM_C = ("_strptime", "time")
"""What the C part of `datetime` imports in the caller's name, with an empty list of names (source code passes None)."""


def preload() -> None:
    """Import all that hook source may ever need, while there is still a file system."""
    for name in (*ALLOWED_IMPORTS, *_LOADED_ON_USE):
        importlib.import_module(name)


def gated_import(
    name: str,
    globals: Mapping[str, object] | None = None,  # noqa: A002  the signature of __import__
    locals: Mapping[str, object] | None = None,  # noqa: A002  the signature of __import__
    fromlist: Sequence[str] | None = None,
    level: int = 0,
) -> types.ModuleType:
    """`__import__` for hook source: preloaded modules, or an ImportError that says what there is.

    It keeps honest source honest and tells its author early; what confines hostile source is the kernel.
    """
    root = name.partition(".")[0]
    allowed = root in ALLOWED_IMPORTS or name == "__future__" or (name in _FROM_C and fromlist is not None)
    if level or not allowed or name not in sys.modules:
        raise ImportError(
            f"hook source cannot import {name!r}; it may import {', '.join(ALLOWED_IMPORTS)}, "
            f"and has in scope without an import: {', '.join(SCOPE)}"
        )
    return builtins.__import__(name, globals, locals, fromlist or (), 0)


class SourceError(Exception):
    """The source cannot become a contract. The message is the whole reason."""


def compile_source(source: str) -> CodeType:
    """Compile hook source; `SourceError` with the line when it is not Python."""
    try:
        return compile(source, FILE_NAME, "exec", dont_inherit=True)
    except SyntaxError as error:
        place = f"line {error.lineno}: " if error.lineno else ""
        text = f" in `{error.text.strip()}`" if error.text and error.text.strip() else ""
        raise SourceError(f"{place}syntax error: {error.msg}{text}") from error
    except ValueError as error:  # a null byte
        raise SourceError(f"the source is not text: {error}") from error


def build_contract(code: CodeType) -> tuple[ContractHooks, str]:
    """Run compiled source in a fresh module and make an instance of its contract class. Also returns the class name."""
    module = types.ModuleType(MODULE_NAME)
    module.__dict__.update(SCOPE)
    module.__dict__["__builtins__"] = {**vars(builtins), "__import__": gated_import}
    sys.modules[MODULE_NAME] = module  # dataclasses looks its module up by name
    exec(code, module.__dict__)  # noqa: S102  the purpose of this process
    for name in CONTRACT_CLASSES:
        found = module.__dict__.get(name)
        if found is None:
            continue
        if not (isinstance(found, type) and issubclass(found, ContractHooks)):
            raise SourceError(f"{name} is not a subclass of Contract; write `class {name}(Contract):`")
        return found(), name
    raise SourceError(f"the source defines no class {CONTRACT_CLASSES[0]}(Contract)")


def overridden_hooks(contract: ContractHooks) -> list[str]:
    """The hooks that the contract's class (or the instance itself) replaces."""
    own = vars(contract)
    return [hook for hook in HOOKS if hook in own or getattr(type(contract), hook) is not getattr(ContractHooks, hook)]


def describe_exception(error: BaseException, source: str) -> str:
    """One line: the kind of exception, its message, and the line of the source that raised it."""
    if isinstance(error, SourceError):
        return str(error)[:REASON_CHARACTERS]
    try:
        message = str(error)
    except BaseException as hostile:  # noqa: BLE001  the exception's class is the hook's own and may do anything
        message = f"(its message cannot be read: {type(hostile).__name__})"
    number = _line_in_source(error.__traceback__)
    place = ""
    if number is not None:
        lines = source.splitlines()
        text = lines[number - 1].strip()[:120] if 0 < number <= len(lines) else ""
        place = f" at line {number}: `{text}`"
    if isinstance(error, MemoryError):
        message = message or "the memory limit was reached"
    return f"{type(error).__name__}: {message[: REASON_CHARACTERS // 2]}{place}"[:REASON_CHARACTERS]


def _line_in_source(trace: TracebackType | None) -> int | None:
    number: int | None = None
    while trace is not None:
        if trace.tb_frame.f_code.co_filename == FILE_NAME:
            number = trace.tb_lineno
        trace = trace.tb_next
    return number


def check_returned(value: object, wanted: tuple[type[Any], ...]) -> None:
    """`TypeError` that names both types when a hook returned something else."""
    if not isinstance(value, wanted):
        names = " or ".join(kind.__name__ for kind in wanted)
        hint = "; is a `return` missing?" if value is None else ""
        raise TypeError(f"returned {type(value).__name__}, expected {names}{hint}")
