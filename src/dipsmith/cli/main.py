"""`dipsmith`: the commands, and how errors become one line and an exit code."""

from __future__ import annotations

import os
import sys
import traceback
from pathlib import Path
from typing import Annotated, Any

import typer

from dipsmith.cli import (
    audit,
    compare,
    demo,
    experiment,
    interval,
    ledger,
    plan,
    report,
    schema,
    studio,
    synthesize,
    verify,
)
from dipsmith.errors import DipsmithError
from dipsmith.version import VERSION

_CommandLineError: Any = typer.BadParameter.__mro__[2]
"""What typer raises for wrong options, wherever this version of it keeps the class."""

DEBUG_LOG = Path("dipsmith-debug-CONFIDENTIAL.log")

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
        typer.Option(
            "--debug", help=f"On an unexpected failure write {DEBUG_LOG} (may hold private values)."
        ),
    ] = False,
) -> None:
    if debug:
        os.environ["DIPSMITH_DEBUG"] = "1"


demo.add_to(app)
schema.add_to(app)
plan.add_to(app)
synthesize.add_to(app)
verify.add_to(app)
compare.add_to(app)
report.add_to(app)
ledger.add_to(app)
interval.add_to(app)
studio.add_to(app)
experiment.add_to(app)
audit.add_to(app)


def main() -> None:
    """Run the command line; errors are one line on standard error and an exit code."""
    try:
        code = app(standalone_mode=False)
    except DipsmithError as error:
        _fail(str(error), error.exit_code)
    except typer.Abort:
        _fail("stopped", 130)
    except _CommandLineError as error:
        if type(error).__name__ == "NoArgsIsHelpError":
            typer.echo(error.format_message())
            sys.exit(2)
        _fail(f"{error.format_message()} (dipsmith --help shows how)", 2)
    except KeyboardInterrupt:
        _fail("interrupted; what was spent stays spent, nothing half-written was left", 130)
    except MemoryError:
        _fail("not enough memory; use coarser bins, a smaller method, or a larger machine", 1)
    except Exception as error:  # noqa: BLE001 — a traceback may quote private values, so nobody sees it by accident
        _unexpected(error)
    else:
        sys.exit(code if isinstance(code, int) else 0)


def _fail(message: str, code: int) -> None:
    line = " ".join(message.split())
    typer.echo(f"dipsmith: error: {line}", err=True)
    sys.exit(code)


def _unexpected(error: Exception) -> None:
    hint = "run again with 'dipsmith --debug …' to write a confidential log"
    if os.environ.get("DIPSMITH_DEBUG") == "1":
        handle = os.open(DEBUG_LOG, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600)
        with os.fdopen(handle, "w", encoding="utf-8") as log:
            log.write("".join(traceback.format_exception(error)))
        hint = f"the confidential log is {DEBUG_LOG}"
    _fail(f"unexpected failure ({type(error).__name__}); {hint}", 1)


if __name__ == "__main__":
    main()
