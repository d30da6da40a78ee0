"""`dipsmith verify`: whether a release is whole, and the ledger knows it."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

from typer import Argument, Option

from dipsmith.cli.options import Json
from dipsmith.cli.terminal import answer

EXAMPLES = "Example:\n\n  dipsmith verify release/ --ledger budget.db"


def verify(
    release: Annotated[Path, Argument(metavar="RELEASE", help="The folder of a release.")],
    ledger: Annotated[Path | None, Option("--ledger", help="Also check the card against this ledger.")] = None,
    json: Json = False,
) -> None:
    """Check every file of a release against its card, and the card against the ledger."""
    from dipsmith.synthesis.verify import verify as check

    found = check(release, ledger)
    facts = {name: getattr(found, name) for name in ("files", "rows", "sets", "ledger", "guarantee", "missing")}
    answer(json, {"whole": True, **facts}, str(found))
