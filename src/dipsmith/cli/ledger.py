"""`dipsmith ledger`: grants, what was spent, and whether the book is whole."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from dipsmith.cli.terminal import Delta, Epsilon, Json, LedgerFile, Rho, budget_of, emit, say

app = typer.Typer(
    no_args_is_help=True, help="Grant budget, see what was spent, check and back up the ledger."
)


def add_to(parent: typer.Typer) -> None:
    """Register the commands."""
    parent.add_typer(app, name="ledger")


@app.command(
    epilog="Example:\n\n  dipsmith ledger grant people --ledger budget.db --epsilon 1.5 --why 'pilot'"
)
def grant(
    name: Annotated[str, typer.Argument(help="The dataset: the schema's name.")],
    ledger: LedgerFile,
    epsilon: Epsilon = None,
    rho: Rho = None,
    delta: Delta = None,
    by: Annotated[str | None, typer.Option("--by", help="Who grants it (default: the OS user).")] = None,
    why: Annotated[str, typer.Option("--why", help="What for.")] = "",
    json: Json = False,
) -> None:
    """Allow a dataset to spend so much more."""
    from dipsmith.privacy.ledger import Ledger

    book = Ledger(ledger)
    book.grant(name, budget_of(epsilon, rho, delta), by=by, why=why)
    shown = book.show(name)
    if json:
        emit(shown.as_dict())
    else:
        say(str(shown))


@app.command(epilog="Example:\n\n  dipsmith ledger show --ledger budget.db")
def show(
    ledger: LedgerFile,
    name: Annotated[str | None, typer.Argument(help="One dataset; all when omitted.")] = None,
    json: Json = False,
) -> None:
    """Show granted, spent and remaining budget, and every run."""
    from dipsmith.privacy.ledger import Ledger

    book = Ledger(ledger)
    shown = list(book.show()) if name is None else [book.show(name)]
    if json:
        emit([s.as_dict() for s in shown] if name is None else shown[0].as_dict())
    else:
        say("\n\n".join(str(s) for s in shown) or "the ledger is empty")


@app.command(epilog="Example:\n\n  dipsmith ledger verify --ledger budget.db --card release/card.json")
def verify(
    ledger: LedgerFile,
    card: Annotated[
        list[Path] | None, typer.Option("--card", help="Cards whose head the chain must contain.")
    ] = None,
    json: Json = False,
) -> None:
    """Check the chain of every entry; with cards, that nothing was rolled back."""
    from dipsmith.errors import DamageError, InputError
    from dipsmith.privacy.ledger import Ledger
    from dipsmith.synthesis.card import Card

    heads = []
    for path in card or ():
        if not path.is_file():
            raise InputError(f"'{path}' is not a file; give a release's card.json")
        try:
            head = Card.from_json(path.read_text("utf-8", errors="replace")).ledger_head
        except DamageError as error:
            raise DamageError(f"'{path}': {error}") from None
        if head is not None:
            heads.append(head)
    report = Ledger(ledger).verify(cards=heads)
    if json:
        emit({"intact": True, "rows": report.rows, "head": report.head, "cards": report.cards})
    else:
        say(str(report))


@app.command(epilog="Example:\n\n  dipsmith ledger backup copy.db --ledger budget.db")
def backup(
    to: Annotated[Path, typer.Argument(help="The file to write; must not exist.")],
    ledger: LedgerFile,
    json: Json = False,
) -> None:
    """Copy the ledger, consistent and checked."""
    from dipsmith.privacy.ledger import Ledger
    from dipsmith.synthesis.writing import require_outside_releases

    require_outside_releases(to)
    Ledger(ledger).backup(to)
    if json:
        emit({"backup": str(to)})
    else:
        say(f"Copied to {to}")
