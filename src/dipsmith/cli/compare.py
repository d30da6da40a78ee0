"""`dipsmith compare`: authentic and synthetic rows side by side, CONFIDENTIAL, logged as a look."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from dipsmith.cli.terminal import Json, LedgerFile, emit, progress, say

EXAMPLES = """Examples:

  dipsmith compare people.csv release/ --ledger budget.db --out comparison/

  dipsmith compare people.csv release-a/ release-b/ --ledger budget.db --out comparison/ --analysis "log(pay) ~ sex + age | agency" --by year --reference sex=M

  dipsmith compare people.csv release/ --ledger budget.db --out comparison/ --third register.csv --match-on employee_id
"""


def add_to(app: typer.Typer) -> None:
    """Register the command."""
    app.command(epilog=EXAMPLES)(compare)


def compare(
    data: Annotated[
        str,
        typer.Argument(metavar="FILE", help="The authentic rows: CSV, Parquet, folder, glob or database."),
    ],
    releases: Annotated[list[Path], typer.Argument(metavar="RELEASE…", help="One to four release folders.")],
    ledger: LedgerFile,
    out: Annotated[Path, typer.Option("--out", help="The folder to write; must not exist.")],
    analysis: Annotated[
        list[str] | None, typer.Option("--analysis", help="A regression formula; may be repeated.")
    ] = None,
    by: Annotated[
        str | None, typer.Option("--by", help="Fit every --analysis once per level of this column.")
    ] = None,
    reference: Annotated[
        list[str] | None,
        typer.Option(
            "--reference", help="COLUMN=LEVEL that other levels are compared with; may be repeated."
        ),
    ] = None,
    replicates: Annotated[
        int, typer.Option("--replicates", help="Noise-aware intervals by so many runs of the mechanism.")
    ] = 0,
    classifier: Annotated[
        list[str] | None,
        typer.Option(
            "--classifier", help="logistic, interactions, cart, forest, svm, boosting; may be repeated."
        ),
    ] = None,
    schema: Annotated[
        Path | None,
        typer.Option("--schema", help="A schema other than the one that the release was made by."),
    ] = None,
    third: Annotated[
        str | None, typer.Option("--third", help="A third file to label and join with the authentic rows.")
    ] = None,
    match_on: Annotated[
        list[str] | None, typer.Option("--match-on", help="The identifier's column; may be repeated.")
    ] = None,
    name: Annotated[
        list[str] | None, typer.Option("--name", help="What to call a release; once per release.")
    ] = None,
    table: Annotated[
        str | None, typer.Option("--table", help="The table, when FILE is a database address.")
    ] = None,
    json: Json = False,
) -> None:
    """Compare releases with the authentic rows. CONFIDENTIAL: the look is logged, the result must not be released."""
    from dipsmith.schema import Schema
    from dipsmith.sources import source
    from dipsmith.synthesis.writing import require_absent
    from dipsmith.utility.compare import compare as run
    from dipsmith.utility.regression import Regression

    require_absent(out)
    levels = references(reference)
    wanted = [
        Regression(formula, by=by, reference=_used(formula, levels), replicates=replicates)
        for formula in analysis or ()
    ]
    with progress(json) as show:
        found = run(
            source(data, table=table),
            *releases,
            ledger=ledger,
            analyses=wanted,
            schema=None if schema is None else Schema.read(schema),
            names=name,
            classifiers=classifier,
            third=third,
            match_on=match_on,
            progress=show,
        )
        where = found.save(out)
    if json:
        emit({"out": str(where), **found.to_dict()})
        return
    say(str(found))
    say(f"Written to {where}/comparison.html — CONFIDENTIAL, look {found.looks} at '{found.dataset}'.")


def references(given: list[str] | None) -> dict[str, str]:
    """The levels that --reference options name."""
    from dipsmith.errors import UsageError

    found = {}
    for entry in given or ():
        column, equals, level = entry.partition("=")
        if not equals or not column.strip() or not level.strip():
            raise UsageError(f"--reference {entry}: expected COLUMN=LEVEL, such as sex=M")
        found[column.strip()] = level.strip()
    return found


def _used(formula: str, levels: dict[str, str]) -> dict[str, object]:
    """The references of the columns that a formula names."""
    from dipsmith.schema.formula import Formula

    names = Formula.parse(formula).attributes
    return {column: level for column, level in levels.items() if column in names}
