"""`dipsmith ledger`: grants, what was spent, and whether the book is whole."""

from __future__ import annotations

from dataclasses import asdict
from pathlib import Path
from typing import Annotated, Final

import typer
from typer import Argument, Option

from dipsmith.cli.options import Delta, Epsilon, Json, LedgerFile, Rho, budget_of
from dipsmith.cli.terminal import answer, warn
from dipsmith.errors import DamageError, InputError, UsageError
from dipsmith.report.commands import command

MUCH: Final = 100
"""ε or ρ of one grant beyond which it is taken for a slip of the keyboard."""
By = Annotated[str | None, Option("--by", help="Who grants it (default: the OS user).")]
Why = Annotated[str, Option("--why", help="What for.")]
Private = Annotated[
    list[str] | None, Option("--private", help="Under label: a private column, stated with the grant; may be repeated.")
]

app = typer.Typer(no_args_is_help=True, help="Grant budget, see what was spent, check and back up the ledger.")


@app.command(
    epilog="Examples:\n\n  dipsmith ledger grant people --ledger budget.db --epsilon 1.5 --why 'pilot'\n\n"
    "  dipsmith ledger grant people --ledger budget.db --epsilon 1.5 --private sex --private race\n\n"
    "  dipsmith ledger grant --signed grant.json --ledger budget.db"
)
def grant(
    ledger: LedgerFile,
    name: Annotated[str | None, Argument(help="The dataset: the schema's name; none with --signed.")] = None,
    epsilon: Epsilon = None,
    rho: Rho = None,
    delta: Delta = None,
    by: By = None,
    why: Why = "",
    private: Private = None,
    signed: Annotated[
        Path | None, Option("--signed", help="A grant that `ledger sign` made elsewhere, taken once.")
    ] = None,
    json: Json = False,
) -> None:
    """Allow a dataset to spend so much more."""
    from dipsmith.privacy.ledger import Ledger
    from dipsmith.privacy.signature import Signed
    from dipsmith.schema.naming import check_name

    book = Ledger(ledger)
    if signed is not None:
        _refuse("--signed says all of the grant", name, epsilon, rho, delta, by, private, why or None)
        name = book.grant_signed(Signed.read(signed))
    elif name is None:
        raise UsageError("which dataset? give its name, or --signed with a grant that was signed elsewhere")
    else:
        check_name(name)
        budget = budget_of(epsilon, rho, delta)
        book.grant(name, budget, by=by, why=why, private=private)
        if budget.exact > MUCH:
            warn(
                f"{budget} protects nobody; few public releases spend more than 10. While nothing is spent it can be taken "
                f"back: {command('ledger', 'withdraw', name, '--ledger', ledger)}"
            )
    account = book.show(name)
    facts = {**account.as_dict(), "head": book.head}
    answer(json, facts, str(account), f"ledger head: {book.anchor}")


@app.command(epilog="Example:\n\n  dipsmith ledger withdraw people --ledger budget.db --why 'meant ρ'")
def withdraw(
    name: Annotated[str, Argument(help="The dataset: the schema's name.")],
    ledger: LedgerFile,
    by: By = None,
    why: Why = "",
    json: Json = False,
) -> None:
    """Take back grants from which nothing was spent, for instance to grant in another currency."""
    from dipsmith.privacy.ledger import Ledger

    book = Ledger(ledger)
    book.withdraw(name, by=by, why=why)
    answer(json, {**book.show(name).as_dict(), "head": book.head}, str(book.show(name)), f"ledger head: {book.anchor}")


@app.command(epilog="Example:\n\n  dipsmith ledger show --ledger budget.db")
def show(
    ledger: LedgerFile,
    name: Annotated[str | None, Argument(help="One dataset; all when omitted.")] = None,
    json: Json = False,
) -> None:
    """Show granted, spent and remaining budget, and every run."""
    from dipsmith.privacy.ledger import Ledger

    book = Ledger(ledger)
    if name is not None:
        answer(json, book.show(name).as_dict(), str(book.show(name)))
        return
    accounts = list(book.show())
    text = "\n\n".join(map(str, accounts)) or "the ledger is empty"
    answer(json, [a.as_dict() for a in accounts], text)


@app.command(epilog="Example:\n\n  dipsmith ledger verify --ledger budget.db --card release/card.json")
def verify(
    ledger: LedgerFile,
    card: Annotated[list[Path] | None, Option("--card", help="Cards whose head the chain must contain.")] = None,
    head: Annotated[
        list[str] | None, Option("--head", help="A head written down elsewhere that the chain must contain.")
    ] = None,
    json: Json = False,
) -> None:
    """Check every entry, balance and signature; with cards or heads, that nothing was rolled back."""
    from dipsmith.privacy.ledger import Ledger
    from dipsmith.synthesis.card import Card

    heads = []
    for path in card or ():
        if not path.is_file():
            raise InputError(f"'{path}' is not a file; give a release's card.json")
        try:
            found = Card.from_json(path.read_text("utf-8", errors="replace")).ledger_head
        except DamageError as error:
            raise DamageError(f"'{path}': {error}") from None
        if found is not None:
            heads.append(found)
    report = Ledger(ledger).verify(cards=heads, heads=head or ())
    answer(json, {"intact": True, **asdict(report)}, str(report))


@app.command(epilog="Example:\n\n  dipsmith ledger head --ledger budget.db >> heads.txt")
def head(ledger: LedgerFile, json: Json = False) -> None:
    """Print the last entry's number, time and hash, to be kept outside the machine."""
    from dipsmith.privacy.ledger import Ledger

    book = Ledger(ledger)
    answer(json, {**asdict(book.anchor), "id": book.id}, str(book.anchor))


@app.command(epilog="Example:\n\n  dipsmith ledger keygen office")
def keygen(
    name: Annotated[Path, Argument(help="Writes NAME.key, for its owner's eyes only, and NAME.pub.")],
    json: Json = False,
) -> None:
    """Draw a key pair for signing grants, on the signer's own machine."""
    from dipsmith.privacy.signature import make_keys

    secret, public = make_keys(name)
    last = f"Written {secret}, which signs and stays here, and {public}, which the ledger is given"
    answer(json, {"key": str(secret), "public": str(public)}, last)


@app.command(
    epilog="Examples:\n\n  dipsmith ledger sign people --epsilon 1.5 --ledger-id ID --key office.key --out grant.json\n\n"
    "  dipsmith ledger sign --successor new.pub --ledger-id ID --key office.key --out change.json"
)
def sign(
    ledger_id: Annotated[str, Option("--ledger-id", help="The ledger's id, from `ledger head --json`.")],
    key: Annotated[Path, Option("--key", help="The private key that `ledger keygen` wrote.")],
    out: Annotated[Path, Option("--out", help="The file to write; must not exist.")],
    name: Annotated[str | None, Argument(help="The dataset: the schema's name.")] = None,
    epsilon: Epsilon = None,
    rho: Rho = None,
    delta: Delta = None,
    by: By = None,
    why: Why = "",
    private: Private = None,
    successor: Annotated[
        Path | None, Option("--successor", help="Instead of a grant: the public key that takes over.")
    ] = None,
    json: Json = False,
) -> None:
    """Sign a grant, on a machine without the ledger; `ledger grant --signed` takes it."""
    from dipsmith.privacy.signature import read_key, read_public, sign_grant, sign_successor

    signing = read_key(key)
    if successor is not None:
        rest = (name, epsilon, rho, delta, by, private, why or None)
        _refuse("--successor names the next key and grants nothing", *rest)
        signed, use = sign_successor(signing, ledger_id, read_public(successor)), "require-signature"
    elif name is None:
        raise UsageError("which dataset? give its name, or --successor with the public key that takes over")
    else:
        budget = budget_of(epsilon, rho, delta)
        signed, use = sign_grant(signing, ledger_id, name, budget, by=by, why=why, private=private), "grant"
    signed.write(out)
    then = command("ledger", use, "--signed", out, "--ledger", "LEDGER")
    answer(json, {"out": str(out), "nonce": signed.nonce}, f"Written {out}; where the ledger is: {then}")


@app.command(
    "require-signature", epilog="Example:\n\n  dipsmith ledger require-signature --ledger budget.db --public office.pub"
)
def require_signature(
    ledger: LedgerFile,
    public: Annotated[Path | None, Option("--public", help="The key whose signature grants need.")] = None,
    signed: Annotated[
        Path | None, Option("--signed", help="Another key, signed by the one before (`ledger sign --successor`).")
    ] = None,
    json: Json = False,
) -> None:
    """From now on take grants only with a signature; this cannot be undone."""
    from dipsmith.privacy.ledger import Ledger
    from dipsmith.privacy.signature import Signed, read_public

    book = Ledger(ledger)
    if public is not None and signed is None:
        book.require_signature(read_public(public))
    elif signed is not None and public is None:
        book.require_signature(Signed.read(signed))
    else:
        raise UsageError("give --public the first time, and --signed to name another key later")
    lines = f"Grants need a signature for --ledger-id {book.id}\nledger head: {book.anchor}"
    answer(json, {**asdict(book.anchor), "id": book.id}, lines)


@app.command(epilog="Example:\n\n  dipsmith ledger backup copy.db --ledger budget.db")
def backup(
    to: Annotated[Path, Argument(help="The file to write; must not exist.")], ledger: LedgerFile, json: Json = False
) -> None:
    """Copy the ledger, consistent and checked."""
    from dipsmith.privacy.ledger import Ledger
    from dipsmith.synthesis.writing import require_outside_releases

    require_outside_releases(to)
    Ledger(ledger).backup(to)
    answer(json, {"backup": str(to)}, f"Copied to {to}")


def _refuse(why: str, *options: object) -> None:
    """Refuse options that say again, or otherwise, what another one says."""
    if any(option is not None for option in options):
        raise UsageError(f"{why}; leave the other options out")
