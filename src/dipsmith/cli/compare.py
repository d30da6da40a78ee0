"""`dipsmith compare`: authentic and synthetic rows side by side, CONFIDENTIAL, logged as a look."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

from typer import Argument, Option

from dipsmith.cli.options import Json, LedgerFile, MembersTable, NewFolder, References, Table, examples, references_of
from dipsmith.cli.terminal import answer, progress

EXAMPLES = examples(
    "dipsmith compare people.csv release/ --ledger budget.db --out comparison/ --pair age,occupation --third agency",
    "dipsmith compare people.csv release/ --ledger budget.db --out comparison/",
    'dipsmith compare people.csv release-a/ release-b/ --ledger budget.db --out comparison/ --analysis "log(pay) ~ sex + age | agency" --by year --reference sex=M',
    "dipsmith compare people.csv release/ --ledger budget.db --out comparison/ --third-file register.csv --match-on employee_id",
)


def compare(
    data: Annotated[str, Argument(metavar="FILE", help="The authentic rows: CSV, Parquet, folder, glob or database.")],
    releases: Annotated[list[Path], Argument(metavar="RELEASE…", help="One to four release folders.")],
    ledger: LedgerFile,
    out: NewFolder,
    analysis: Annotated[list[str] | None, Option("--analysis", help="A regression formula; may be repeated.")] = None,
    by: Annotated[str | None, Option("--by", help="Fit every --analysis once per level of this column.")] = None,
    reference: References = None,
    replicates: Annotated[
        int, Option("--replicates", help="Noise-aware intervals by so many runs of the mechanism.")
    ] = 0,
    classifier: Annotated[
        list[str] | None,
        Option("--classifier", help="logistic, interactions, cart, forest, svm, boosting; may be repeated."),
    ] = None,
    schema: Annotated[
        Path | None, Option("--schema", help="A schema other than the one that the release was made by.")
    ] = None,
    pair: Annotated[
        list[str] | None, Option("--pair", help="COLUMN,COLUMN: one within each level of the other; may be repeated.")
    ] = None,
    third: Annotated[
        str | None, Option("--third", metavar="COLUMN", help="The third column of panel (a), joint proportions.")
    ] = None,
    third_file: Annotated[
        str | None, Option("--third-file", help="A third file to label and join with the authentic rows.")
    ] = None,
    match_on: Annotated[
        list[str] | None, Option("--match-on", help="The identifier's column; may be repeated.")
    ] = None,
    rows: Annotated[
        int, Option("--rows", min=2, help="Classifiers and attackers see at most so many rows of each table.")
    ] = 10_000,
    members: Annotated[
        str | None, Option("--members", metavar="FILE", help="Of households: the authentic table of their members.")
    ] = None,
    members_table: MembersTable = None,
    name: Annotated[list[str] | None, Option("--name", help="What to call a release; once per release.")] = None,
    table: Table = None,
    json: Json = False,
) -> None:
    """Compare releases with the authentic rows. CONFIDENTIAL: the look is logged, the result must not be released."""
    from dipsmith.schema import Schema
    from dipsmith.schema.formula import Formula
    from dipsmith.sources import source
    from dipsmith.synthesis.writing import require_absent
    from dipsmith.utility.compare import compare as run
    from dipsmith.utility.regression import Regression

    require_absent(out)
    levels = references_of(reference)
    wanted = []
    for formula in analysis or ():
        named = Formula.parse(formula).attributes
        used = {column: level for column, level in levels.items() if column in named}
        wanted.append(Regression(formula, by=by, reference=used, replicates=replicates))
    with progress(json, lines=True) as show:
        found = run(
            source(data, table=table),
            *releases,
            ledger=ledger,
            analyses=wanted,
            schema=None if schema is None else Schema.read(schema),
            names=name,
            classifiers=classifier,
            third=third,
            pairs=[(one.strip(), other.strip()) for one, _, other in (text.partition(",") for text in pair or ())],
            third_file=third_file,
            match_on=match_on,
            rows=rows,
            members=None if members is None else source(members, table=members_table),
            progress=show,
        )
        if show is not None:
            show("drawing", 0.0)
        where = found.save(out)
    last = f"Written to {where}/comparison.html — CONFIDENTIAL, look {found.looks} at '{found.dataset}'."
    answer(json, {"out": str(where), **found.to_dict()}, str(found), last)
