"""The command line's reference page, made from the commands themselves.

``python -m assurance.cli_reference docs/reference/cli.md`` writes it; a test fails when it is out of date.
"""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import typer
import typer.main

WIDTH = 100


def pages() -> str:
    """The help of every command, as Markdown."""
    from assurance.markdown import wrap
    from dipsmith.cli.main import app

    root = typer.main.get_command(app)
    parts = ["# Command line", "", _exit_codes(), ""]
    for path, command in _commands(root, ("dipsmith",)):
        context = command.context_class(
            command, info_name=" ".join(path), terminal_width=WIDTH, max_content_width=WIDTH
        )
        parts += [f"## {' '.join(path)}", "", "```text", command.get_help(context).strip(), "```", ""]
    return wrap("\n".join(line.rstrip() for line in "\n".join(parts).splitlines()) + "\n")


def _commands(command: Any, path: tuple[str, ...]) -> list[tuple[tuple[str, ...], Any]]:
    found = [(path, command)]
    for name in getattr(command, "commands", {}):
        found += _commands(command.commands[name], (*path, name))
    return found


def _exit_codes() -> str:
    return (
        "Results go to standard output (`--json` for machines), progress and errors to standard error. Exit codes: 0 ok; "
        "1 unexpected failure; 2 usage, contradictory options, unsupported method or relation; 3 files and schemas, "
        "existing output; 4 budget, missing grant, currency or relation refused; 5 ledger or release damaged; 6 missing extra; "
        "130 interrupted (Ctrl-C), 143 terminated."
    )


if __name__ == "__main__":
    Path(sys.argv[1]).write_text(pages(), "utf-8")
