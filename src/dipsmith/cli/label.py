"""`dipsmith label`: label a public file from the model of a release, free."""

from __future__ import annotations

from typing import Annotated

from typer import Argument, Option

from dipsmith.cli import options
from dipsmith.cli.terminal import answer, warn, warnings_as_notes
from dipsmith.errors import UnlinkedRows, UnlistedValues

EXAMPLES = options.examples(
    "dipsmith label release/ next-year.csv --out labelled.csv",
    "dipsmith label release/ other.csv --map 'pay=basic_pay*1.08' --seed 1 --out labelled.parquet",
)


def label(
    release: options.Release,
    data: Annotated[str, Argument(metavar="FILE", help="A public file that has every public column.")],
    out: options.NewTable,
    columns: Annotated[
        list[str] | None,
        Option("--map", metavar="NAME=…", help="Where FILE has a column: pay=basic_pay*1.08; repeatable."),
    ] = None,
    factors: options.Factors = None,
    seed: options.DrawSeed = None,
    model: options.WhichModel = 1,
    escape: options.Escape = False,
    table: options.Table = None,
    encoding: options.Encoding = None,
    delimiter: options.Delimiter = None,
    json: options.Json = False,
) -> None:
    """Label the rows of a public file from a release under label, in their order; costs nothing."""
    from dipsmith.sources import source
    from dipsmith.synthesis.column_map import read_map
    from dipsmith.synthesis.exit import require_table_file, write_table_file
    from dipsmith.synthesis.release import Release

    require_table_file(out)
    loaded = Release.load(release)
    rows = source(data, table=table, encoding=encoding, delimiter=delimiter)
    meanings = read_map(columns or (), "--map", loaded.schema)
    with warnings_as_notes(UnlinkedRows, UnlistedValues):
        made = loaded.label(rows, meanings, seed, factors=factors, model=model)
    write_table_file(out, made, loaded.schema, escape=escape)
    card = loaded.card
    if card.analyses:
        warn("planned analyses are carried by the labels of the release itself, not by those of other rows")
    targets = loaded.models[model - 1].labeller().targets
    if known := [name for name in targets if name in rows.columns]:
        warn(
            f"the file has a column '{known[0]}' of its own: if that is confidential, so is the order of its rows, which the "
            "labelled file keeps; shuffle the rows before, or do not publish it"
        )
    again = "drawn freshly" if seed is None else f"seed {seed}"
    answer(
        json,
        {
            "out": str(out),
            "rows": made.num_rows,
            "labels": targets,
            "model": model,
            "seed": seed,
            "request": card.request,
        },
        f"{made.num_rows:,} rows labelled with {', '.join(targets)}, {again}, by model-{model} of {card.method} in {release} "
        f"('{card.dataset}'; {card.guarantee}).",
        "Nothing private was read and nothing was charged; rows are in the order of the file, which must be public.",
        f"Written to {out}",
    )
