"""`dipsmith synthesize`: from a confidential file to a release folder."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from dipsmith.cli.terminal import (
    Delta,
    Epsilon,
    Json,
    LedgerFile,
    Rho,
    SchemaFile,
    Settings,
    budget_of,
    emit,
    method_of,
    progress,
    said,
    say,
    warn,
)
from dipsmith.report.commands import command

EXAMPLES = """Examples:

  dipsmith synthesize people.csv --schema people.yaml --method loglinear --epsilon 0.75 --ledger budget.db --out release/

  dipsmith synthesize people.parquet --schema people.yaml --method mst --epsilon 1 --delta 1e-9 --ledger budget.db --out release/

  dipsmith synthesize people.csv --schema people.yaml --method flat --epsilon 1 --sets 5 --each split --format csv --ledger budget.db --out release/
"""


def add_to(app: typer.Typer) -> None:
    """Register the command."""
    app.command(epilog=EXAMPLES)(synthesize)


def synthesize(
    data: Annotated[
        str, typer.Argument(metavar="FILE", help="CSV, Parquet, folder, glob or database address.")
    ],
    schema: SchemaFile,
    method: Annotated[str, typer.Option("--method", help="flat, marginals, forest, loglinear, mst, aim, …")],
    ledger: LedgerFile,
    out: Annotated[Path, typer.Option("--out", help="The folder to write; must not exist.")],
    epsilon: Epsilon = None,
    rho: Rho = None,
    delta: Delta = None,
    sets: Annotated[int, typer.Option("--sets", help="How many synthetic sets.")] = 1,
    each: Annotated[
        str | None, typer.Option("--each", help="split: m sanitisations; draw: m draws from one.")
    ] = None,
    rows: Annotated[
        int | None,
        typer.Option(
            "--rows",
            help="Rows to make. Under add-remove also what the table's own number is taken for, free of charge: give the true "
            "one, or one near it.",
        ),
    ] = None,
    onto: Annotated[str | None, typer.Option("--onto", help="Under label: another file to label.")] = None,
    settings: Settings = None,
    request: Annotated[
        str | None, typer.Option("--request", help="Id of this run; it never draws twice.")
    ] = None,
    another_grant: Annotated[
        bool,
        typer.Option(
            "--another-grant", help="Confirm that these rows were charged under another name before."
        ),
    ] = False,
    format: Annotated[str, typer.Option("--format", help="parquet or csv.")] = "parquet",  # noqa: A002
    escape: Annotated[
        bool, typer.Option("--escape-formulas", help="CSV: quote text that starts like a formula.")
    ] = False,
    table: Annotated[
        str | None, typer.Option("--table", help="The table, when FILE is a database address.")
    ] = None,
    encoding: Annotated[
        str | None, typer.Option("--encoding", help="CSV that is not UTF-8, e.g. latin-1.")
    ] = None,
    delimiter: Annotated[
        str | None, typer.Option("--delimiter", help="CSV: , ; tab or | (found when omitted).")
    ] = None,
    json: Json = False,
) -> None:
    """Make synthetic tables in place of a confidential one, and charge the ledger."""
    from dipsmith.errors import HopelessNoise, LostKey, UsageError
    from dipsmith.privacy.ledger import Ledger
    from dipsmith.schema import Schema
    from dipsmith.sources import source
    from dipsmith.synthesis.sets import place_of
    from dipsmith.synthesis.synthesize import synthesize as run
    from dipsmith.synthesis.writing import require_absent

    if format not in ("parquet", "csv"):
        raise UsageError(f"--format is '{format}', expected parquet or csv")
    budget = budget_of(epsilon, rho, delta)
    declared = Schema.read(schema)
    chosen = method_of(method, settings, declared)
    require_absent(out)
    for column, label in declared.formula_like()[:3]:
        warn(
            f"column '{column}' has the label {label!r}, which a spreadsheet reads as a formula; see --escape-formulas"
        )
    found = source(data, table=table, encoding=encoding, delimiter=delimiter)
    if onto is None:
        place_of(found).require_output(out, format)
    with progress(json) as show, said(HopelessNoise), said(LostKey):
        release = run(
            found,
            declared,
            chosen,
            budget=budget,
            ledger=Ledger(ledger),
            sets=sets,
            each=each,  # type: ignore[arg-type]  # checked by the callee
            rows=rows,
            onto=onto,
            request=request,
            another_grant=another_grant,
            progress=show,
        )
    where, verb = release.folder, "Released before, nothing was drawn or charged: it is in"
    if where is None:
        verb = "Written to"
        where = release.save(out, format=format, escape=escape)  # type: ignore[arg-type]  # checked above
    card, head = release.card, Ledger(ledger).anchor
    if json:
        emit(
            {
                "head": head.head,
                "out": str(where),
                "rows": card.rows,
                "sets": card.sets,
                "guarantee": card.guarantee,
                "request": card.request,
            }
        )
        return
    say(str(card))
    say(f"{verb} {where}/ — read card.html first; check it with: {command('verify', where)}")
    say(f"ledger head: {head}")
