"""Puts the commands together, and turns every error into one line and an exit code.

Exit codes: 0 done; 1 a check failed (`check`, `sandbox selftest`, `harden --min-success`), an episode is not as it was
(`replay`, `rescore`), or an unexpected error; 2 wrong use, configuration or file; 3 an environment cannot be used; 4 a
component broke its promise; 5 the machinery failed; 6 no sandbox on this system; 7 the run folder cannot be used; 8 a
model's endpoint refuses key, permission or model; 9 the budget is spent; 130 interrupted; 143 terminated.
"""

from __future__ import annotations

import os
import sys
import traceback
from pathlib import Path
from typing import Annotated

import typer

from envharness import __version__
from envharness.cli import (
    check,
    clean,
    compare,
    curriculum,
    demo,
    envs,
    harden,
    load,
    replay,
    report,
    rescore,
    rig,
    run_episodes,
    sandbox,
    show,
)
from envharness.cli.output import console, failure
from envharness.core.errors import EnvHarnessError
from envharness.rollouts.interrupts import termination_unwinds

INTERRUPTED = 130
# Typer carries its own copy of click and exports only some of its errors: this is the base that they share.
_UsageError: type[Exception] = typer.BadParameter.__mro__[2]

app = typer.Typer(
    name="envharness",
    help="Reshape frozen agent environments at their interface, and let statistics decide which reshaping teaches.",
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    add_completion=False,
    epilog="Exit codes: 0 done, 1 check failed, 2 wrong use, 3 environment, 4 component, 5 machinery, 6 no sandbox, "
    "7 run folder, 8 model refused, 9 budget spent, 130 interrupted, 143 terminated. "
    "ENVHARNESS_DEBUG=1 or --debug shows tracebacks.",
)
app.command("envs")(envs.envs)
app.command("check")(check.check)
app.command("run")(run_episodes.run)
app.command("rig")(rig.rig)
app.command("compare")(compare.compare)
app.command("harden")(harden.harden)
app.command("show")(show.show)
app.command("report")(report.report)
app.command("replay")(replay.replay)
app.command("rescore")(rescore.rescore)
app.command("load")(load.load)
app.command("demo")(demo.demo)
app.command("clean")(clean.clean)
app.add_typer(curriculum.app, name="curriculum")
app.add_typer(sandbox.app, name="sandbox")


def _print_version(wanted: bool) -> None:  # Typer calls it with one positional argument
    if wanted:
        console().print(__version__)
        raise typer.Exit


@app.callback()
def root(
    *,
    debug: Annotated[bool, typer.Option("--debug", help="Show tracebacks.")] = False,
    version: Annotated[bool, typer.Option("--version", callback=_print_version, is_eager=True)] = False,
) -> None:
    """Take the options that every command has."""
    del version
    del debug  # read from the arguments by `run`, which must know it even where they do not parse


def run(arguments: list[str]) -> int:
    """Run one command and return its exit code. Nothing but `--debug` ever prints a traceback."""
    debug = "--debug" in arguments or os.environ.get("ENVHARNESS_DEBUG") == "1"
    # Allowed at any place of the line, for it is typed after a failure, at its end.
    arguments = [argument for argument in arguments if argument != "--debug"]
    # As `python -m` does, so that `module:Class` finds what the user is writing; last, so that it shadows nothing.
    if (folder := str(Path.cwd())) not in sys.path:
        sys.path.append(folder)
    try:
        with termination_unwinds():
            result = typer.main.get_command(app).main(arguments, prog_name="envharness", standalone_mode=False)
    except (KeyboardInterrupt, Exception) as error:  # noqa: BLE001  the last line of defence of a command line
        if debug:
            traceback.print_exc()
        return _explain(error)
    code = result if isinstance(result, int) else 0
    if code == INTERRUPTED:  # Typer turns Ctrl-C into this code, and says nothing
        return _explain(KeyboardInterrupt())
    return code


def _explain(error: BaseException) -> int:
    """Say in one line what went wrong, and return the exit code."""
    code = 1
    match error:
        case _UsageError():
            # Its text without the program's name; `str` of such an error may lack the parameter's.
            if message := getattr(error, "format_message", error.__str__)():
                failure(message, hint="see envharness --help")
            code = 2
        case KeyboardInterrupt() | typer.Abort():
            failure("interrupted; a run folder keeps what was finished, and the same command goes on from there")
            code = INTERRUPTED
        case BrokenPipeError():
            # The reader (`| head`) has gone; nothing is left to say, and Python must not try to flush at exit.
            os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
            code = 0
        case OSError() if not isinstance(error, EnvHarnessError):
            # Files of ours raise errors of ours; what is left is the output, or a folder that cannot be looked into.
            failure(f"cannot write or read {error.filename or 'the output'}: {error.strerror or error}")
        case EnvHarnessError():
            failure(str(error))
            code = error.exit_code
        case _:
            failure(f"unexpected {type(error).__name__}: {error}", hint="run again with --debug and report it")
    return code
