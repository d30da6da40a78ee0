"""`dipsmith verify`: whether a release or an answer is whole, and the ledger knows it."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

from typer import Argument, Option

from dipsmith.cli.options import Json, examples
from dipsmith.cli.terminal import answer
from dipsmith.errors import UsageError

EXAMPLES = examples(
    "dipsmith verify release/ --ledger budget.db",
    "dipsmith verify answer/ --ledger budget.db",
    "dipsmith verify answer/ --public steward.pub",
)


def verify(
    release: Annotated[Path, Argument(metavar="RELEASE", help="The folder of a release, or of an answer.")],
    ledger: Annotated[Path | None, Option("--ledger", help="Also check the card against this ledger.")] = None,
    public: Annotated[
        Path | None, Option("--public", help="Of an answer: the steward's public key, which must have signed it.")
    ] = None,
    json: Json = False,
) -> None:
    """Check every file of a release, or of an answer, against its card, and the card against ledger and key."""
    from dipsmith.confirm.answer import is_answer, verify_answer
    from dipsmith.privacy.signature import read_public
    from dipsmith.synthesis.verify import verify as check

    if is_answer(release):
        told = verify_answer(release, ledger, None if public is None else read_public(public))
        facts = {name: getattr(told, name) for name in ("verdict", "ledger", "guarantee", "signer", "known")}
        answer(json, {"whole": True, **facts}, str(told))
        return
    if public is not None:
        raise UsageError("--public is for answers; a release is checked against the ledger")
    found = check(release, ledger)
    facts = {name: getattr(found, name) for name in ("files", "rows", "sets", "ledger", "guarantee", "missing")}
    answer(json, {"whole": True, **facts}, str(found))
