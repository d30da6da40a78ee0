"""The message of an error and its exit code, on a terminal and for programs alike."""

from __future__ import annotations

import os
from typing import Any

import typer

from dipsmith.cli.terminal import visible
from dipsmith.errors import DipsmithError

CommandLineError: Any = typer.BadParameter.__mro__[2]
"""What typer raises for wrong options, wherever this version of it keeps the class."""


class Failure(Exception):  # noqa: N818 — what it is told as
    """One line for people, and an exit code; `unexpected` says that nobody foresaw it."""

    def __init__(self, message: str, exit_code: int, *, unexpected: bool = False) -> None:
        super().__init__(visible(" ".join(message.split())))
        self.exit_code, self.unexpected = exit_code, unexpected


def failure_of(error: Exception) -> Failure:
    """The message for an error that ended a command; it never quotes a library's message, which may hold a value."""
    match error:
        case DipsmithError():
            return Failure(str(error), error.exit_code)
        case MemoryError():
            return Failure("not enough memory; use coarser bins, a smaller method, or a larger machine", 1)
        # The system's own words, and a path: neither ever holds a value of a row. Libraries' words may.
        case OSError() if error.errno is not None and error.strerror == os.strerror(error.errno):
            where = "" if error.filename is None else f"'{error.filename}': "
            return Failure(f"{where}{error.strerror}; check the path, its permissions and the disk", 3)
        case _ if isinstance(error, CommandLineError):
            asked = "dipsmith" if error.ctx is None else error.ctx.command_path
            return Failure(f"{error.format_message()} ({asked} --help shows how)", 2)
    return Failure(f"unexpected failure ({type(error).__name__})", 1, unexpected=True)
