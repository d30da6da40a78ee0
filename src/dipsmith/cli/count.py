"""`dipsmith count`: one noisy answer, charged."""

from __future__ import annotations

from dataclasses import asdict
from pathlib import Path
from typing import Annotated

from typer import Argument, Option

from dipsmith.cli import options
from dipsmith.cli.terminal import answer, warnings_as_notes
from dipsmith.errors import LostKey

EXAMPLES = options.examples(
    "dipsmith count people.csv --schema people.yaml --where 'age in [30, 71)' --epsilon 0.1 --ledger budget.db",
    "dipsmith count people.csv --schema people.yaml --where 'age >= 65 and sex = F' --epsilon 0.1 --ledger budget.db --out answer.json",
)


def count(
    data: Annotated[str, Argument(metavar="FILE", help="CSV, Parquet, folder, glob or database address.")],
    schema: options.SchemaFile,
    where: Annotated[str, Option("--where", help="Which rows: 'age in [30, 71) and sex = F and grade in {A, B}'.")],
    ledger: options.LedgerFile,
    epsilon: options.Epsilon = None,
    rho: options.Rho = None,
    delta: options.Delta = None,
    out: Annotated[
        Path | None, Option("--out", help="The file that keeps the answer; default: count-….json here.")
    ] = None,
    request: Annotated[str | None, Option("--request", help="Id of this question; it never draws twice.")] = None,
    another_grant: options.AnotherGrant = False,
    table: options.Table = None,
    encoding: options.Encoding = None,
    delimiter: options.Delimiter = None,
    json: options.Json = False,
) -> None:
    """Count the rows that meet some conditions, with noise, and charge the ledger."""
    from dipsmith.privacy.ledger import Ledger
    from dipsmith.schema import Schema
    from dipsmith.sources import source
    from dipsmith.synthesis.noisy_count import count_where

    with warnings_as_notes(LostKey):
        found, kept = count_where(
            source(data, table=table, encoding=encoding, delimiter=delimiter),
            Schema.read(schema),
            where,
            budget=options.budget_of(epsilon, rho, delta),
            ledger=Ledger(ledger),
            out=out,
            request=request,
            another_grant=another_grant,
        )
    answer(json, {**asdict(found), "out": str(kept)}, str(found), f"Kept in {kept}; it may be published.")
