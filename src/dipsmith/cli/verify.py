"""`dipsmith verify`: whether a release or an answer is whole, and the ledger knows it."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

from typer import Argument, Option

from dipsmith.cli.options import Json, examples
from dipsmith.cli.terminal import answer

EXAMPLES = examples("dipsmith verify release/ --ledger budget.db", "dipsmith verify answer/ --ledger budget.db")


def verify(
    release: Annotated[Path, Argument(metavar="RELEASE", help="The folder of a release, or of an answer.")],
    ledger: Annotated[Path | None, Option("--ledger", help="Also check the card against this ledger.")] = None,
    json: Json = False,
) -> None:
    """Check every file of a release, or of an answer, against its card, and the card against the ledger."""
    from dipsmith.confirm.answer import is_answer, verify_answer
    from dipsmith.synthesis.verify import verify as check

    if is_answer(release):
        told = verify_answer(release, ledger)
        facts = {"verdict": told.verdict, "ledger": told.ledger, "guarantee": told.guarantee}
        answer(json, {"whole": True, **facts}, str(told))
        return
    found = check(release, ledger)
    facts = {name: getattr(found, name) for name in ("files", "rows", "sets", "ledger", "guarantee", "missing")}
    answer(json, {"whole": True, **facts}, str(found))
