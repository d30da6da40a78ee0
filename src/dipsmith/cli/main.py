"""`dipsmith`: the commands, and how errors become one line and an exit code."""

from __future__ import annotations

import io
import os
import signal
import sys
import tempfile
import traceback
from functools import cache
from pathlib import Path
from typing import Annotated, Any, NoReturn

import typer

from dipsmith.cli import (
    ask,
    audit,
    compare,
    confirm,
    count,
    demo,
    experiment,
    export,
    fit,
    interval,
    label,
    ledger,
    plan,
    report,
    sample,
    schema,
    serve,
    show,
    studio,
    supports,
    synthesize,
    totals,
    tune,
    verify,
)
from dipsmith.cli.failures import failure_of
from dipsmith.cli.terminal import visible
from dipsmith.version import VERSION

DEBUG_LOG = "dipsmith-debug-CONFIDENTIAL-"

app = typer.Typer(
    name="dipsmith",
    help="Differentially private synthetic tables: from a confidential table to one that can be released.",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
    rich_markup_mode=None,
    context_settings={"help_option_names": ["-h", "--help"]},
    epilog="Start with: dipsmith demo",
)


def _version(asked: bool) -> None:
    if asked:
        typer.echo(f"dipsmith {VERSION}")
        raise typer.Exit


@app.callback()
def _options(
    version: Annotated[
        bool, typer.Option("--version", callback=_version, is_eager=True, help="Print the version and stop.")
    ] = False,
    debug: Annotated[
        bool,
        typer.Option("--debug", help=f"On an unexpected failure write {DEBUG_LOG}….log (may hold private values)."),
    ] = False,
) -> None:
    if debug:
        os.environ["DIPSMITH_DEBUG"] = "1"


COMMANDS = (
    demo, schema, plan, synthesize, sample, label, export, verify, tune, fit, totals, ask, confirm, count, compare,
    report, supports, show, ledger, interval, studio, serve, experiment, audit,
)  # fmt: skip
"""In the order in which `dipsmith --help` lists them."""

for _command in COMMANDS:
    _name = _command.__name__.rpartition(".")[2]
    if hasattr(_command, "app"):
        app.add_typer(_command.app, name=_name)
    else:
        app.command(epilog=_command.EXAMPLES)(getattr(_command, _name))


class _Terminated(BaseException):
    """SIGTERM, turned into an exception so that what is half-written is taken away, as after Ctrl-C."""


INTERRUPTED = "interrupted; what was spent stays spent, nothing half-written was left"


def main() -> None:
    """Run the command line; errors are one line on standard error and an exit code."""
    _open_streams()
    before = signal.signal(signal.SIGTERM, _terminate)
    try:
        _run()
    finally:
        signal.signal(signal.SIGTERM, before)


def _run() -> None:
    try:
        code = commands()(standalone_mode=False)
    except (KeyboardInterrupt, typer.Abort):
        _fail(INTERRUPTED, 130)
    except _Terminated:
        _fail(INTERRUPTED, 143)
    except Exception as error:  # noqa: BLE001 — a traceback may quote private values, so nobody sees it by accident
        if type(error).__name__ == "NoArgsIsHelpError":
            typer.echo(error.format_message())  # type: ignore[attr-defined]
            sys.exit(2)
        failure = failure_of(error)
        _fail(f"{failure}; {_log(error)}" if failure.unexpected else str(failure), failure.exit_code)
    else:
        if code == 130:
            # Typer turns Ctrl-C into this code without a word.
            _fail(INTERRUPTED, 130)
        sys.exit(code if isinstance(code, int) else 0)


@cache
def commands() -> Any:
    """The tree of commands, which takes longer to build than most commands run: once for every process."""
    return typer.main.get_command(app)


def _open_streams() -> None:
    """Let neither a closed stream nor a character that it cannot show stop a run that was charged."""
    for name in ("stdout", "stderr"):
        stream = getattr(sys, name)
        if stream is None:
            setattr(sys, name, Path(os.devnull).open("w", encoding="utf-8"))  # noqa: SIM115 - stays open
        elif isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(errors="backslashreplace")


def _terminate(signum: int, frame: object) -> NoReturn:
    raise _Terminated


def _fail(message: str, code: int) -> NoReturn:
    line = visible(" ".join(message.split()))
    typer.echo(f"dipsmith: error: {line}", err=True)
    sys.exit(code)


def _log(error: Exception) -> str:
    """Where the confidential log of an unexpected failure is, or how to get one."""
    if os.environ.get("DIPSMITH_DEBUG") != "1":
        return "run again with 'dipsmith --debug …' to write a confidential log"
    # A new file with an unpredictable name, for its owner only: no link that lies ready is followed.
    handle, path = tempfile.mkstemp(prefix=DEBUG_LOG, suffix=".log", dir=Path.cwd())
    with os.fdopen(handle, "w", encoding="utf-8") as log:
        log.write("".join(traceback.format_exception(error)))
    return f"the confidential log is {Path(path).name}"


if __name__ == "__main__":
    main()
