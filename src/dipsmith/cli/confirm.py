"""`dipsmith confirm`: the steward answers a researcher's question, privately, and charges the ledger."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Annotated

import typer
from typer import Argument, Option

from dipsmith.cli import options
from dipsmith.cli.terminal import answer, progress, say, visible, warnings_as_notes
from dipsmith.errors import LostKey, UsageError
from dipsmith.report.commands import command

EXAMPLES = options.examples(
    "dipsmith confirm question.yaml --data people.csv --schema people.yaml --ledger budget.db --out answer/",
    "dipsmith confirm question.yaml --data people.csv --schema people.yaml --ledger budget.db --out answer/ --yes",
    'dipsmith confirm question.yaml --ledger budget.db --decline "too close to one office"',
)


def confirm(
    question: Annotated[Path, Argument(metavar="QUESTION", help="The file that `dipsmith ask` wrote.")],
    ledger: options.LedgerFile,
    data: Annotated[str | None, Option("--data", help="The confidential table: file, folder, glob or address.")] = None,
    schema: Annotated[Path | None, Option("--schema", help="The schema file (YAML) of the confidential table.")] = None,
    out: Annotated[Path | None, Option("--out", help="The folder to write; must not exist.")] = None,
    yes: Annotated[bool, Option("--yes", help="Approve without being asked.")] = False,
    decline: Annotated[str | None, Option("--decline", metavar="REASON", help="Decline, on record.")] = None,
    by: Annotated[str | None, Option("--by", help="Who decides; the user of this machine when omitted.")] = None,
    key: Annotated[
        Path | None, Option("--key", help="The private key that signs; the one beside the ledger when omitted.")
    ] = None,
    table: options.Table = None,
    encoding: Annotated[str | None, Option("--encoding", help="CSV that is not UTF-8, e.g. latin-1.")] = None,
    delimiter: Annotated[str | None, Option("--delimiter", help="CSV: , ; tab or | (found when omitted).")] = None,
    json: options.Json = False,
) -> None:
    """Answer a question about the confidential rows with a private poll, or decline it."""
    from dipsmith.confirm.answer import as_facts
    from dipsmith.confirm.confirm import approve as run
    from dipsmith.confirm.confirm import prepare
    from dipsmith.confirm.question import Inquiry
    from dipsmith.confirm.queue import decline as record
    from dipsmith.privacy.ledger import Ledger
    from dipsmith.schema import Schema
    from dipsmith.sources import source

    asked, book = Inquiry.read(question), Ledger(ledger)
    if decline is not None:
        record(asked, book, decline, by)
        answer(json, {"declined": asked.digest}, f"Declined, on record in {ledger}; nothing was read or charged.")
        return
    if data is None or schema is None or out is None:
        raise UsageError("give --data, --schema and --out to answer, or --decline REASON")
    declared = Schema.read(schema)
    prepare(asked, declared)
    known = book.run(asked.request)
    if known is None or known.state != "finished":
        left = book.show(declared.name).remaining
        lines = [
            f"Asked: {asked}",
            f"By: {asked.by or 'nobody named'}{f' ({asked.why})' if asked.why else ''}",
            f"Price: {asked.budget} of {left:g} left for '{declared.name}', by {asked.means}",
            _provenance(book, asked.release, declared.name),
        ]
        if (before := book.declined(asked.request)) is not None:
            lines.append(f"Declined before, by {before.by}: {before.why}")
        for line in lines:
            typer.echo(visible(line), err=json)
        if not yes and not _ask_for_approval():
            say("Nothing was read or charged. To put a refusal on record, use --decline REASON.") if not json else None
            raise typer.Exit(0)
    confidential = source(data, table=table, encoding=encoding, delimiter=delimiter)
    with progress(json) as show, warnings_as_notes(LostKey):
        found = run(asked, confidential, declared, ledger=book, out=out, by=by, key=key, progress=show)
    verb = "Answered before, nothing was read or charged: it is in" if found.before else "Written to"
    answer(
        json,
        {**as_facts(found.answer), "out": str(found.folder), "before": found.before, "head": book.anchor.head},
        found.answer.sentence,
        f"{verb} {found.folder}/ — send the folder back; check it with: {command('verify', found.folder)}",
        f"Signed by key {signer[:16]}…{'' if key else f'; its public part, for researchers: {ledger}.answers.pub'}"
        if (signer := found.answer.signer)
        else "Not signed: it was answered before answers were.",
        f"ledger head: {book.anchor}",
    )


def _ask_for_approval() -> bool:
    if not sys.stdin.isatty():
        raise UsageError("nobody is there to approve the price; give --yes, or --decline REASON")
    return typer.confirm("Answer this question?", default=False)


def _provenance(book: object, release: str, name: str) -> str:
    """Whether the ledger knows the release that the question names."""
    from dipsmith.privacy.ledger import Ledger

    assert isinstance(book, Ledger)
    known = any(release in run.digests for run in book.show(name).runs)
    return f"Release: {release[:16]}…, {'made with this ledger' if known else 'NOT known to this ledger'}"
