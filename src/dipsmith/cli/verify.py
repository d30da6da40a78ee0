"""`dipsmith verify`: whether a release is whole, and the ledger knows it."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from dipsmith.cli.terminal import Json, emit, say


def add_to(app: typer.Typer) -> None:
    """Register the command."""
    app.command(epilog="Example:\n\n  dipsmith verify release/ --ledger budget.db")(verify)


def verify(
    release: Annotated[Path, typer.Argument(metavar="RELEASE", help="The folder of a release.")],
    ledger: Annotated[
        Path | None, typer.Option("--ledger", help="Also check the card against this ledger.")
    ] = None,
    json: Json = False,
) -> None:
    """Check every file of a release against its card, and the card against the ledger."""
    from dipsmith.synthesis.verify import verify as check

    found = check(release, ledger)
    if json:
        emit(
            {
                "whole": True,
                "files": found.files,
                "rows": found.rows,
                "sets": found.sets,
                "ledger": found.ledger,
                "guarantee": found.guarantee,
            }
        )
    else:
        say(str(found))
