"""`dipsmith export`: one set of a release as a file of another form."""

from __future__ import annotations

from typing import Annotated

from typer import Option

from dipsmith.cli import options
from dipsmith.cli.terminal import answer
from dipsmith.errors import UsageError

EXAMPLES = options.examples(
    "dipsmith export release/ --out people.dta      # for Stata, with labels",
    "dipsmith export release/ --set 2 --out people-2.csv",
)


def export(
    release: options.Release,
    out: options.NewTable,
    which: Annotated[int, Option("--set", help="Which set, where there are several.")] = 1,
    escape: options.Escape = False,
    json: options.Json = False,
) -> None:
    """Write one set of a release as CSV, Parquet, Stata or SPSS; reads nothing private and costs nothing."""
    from dipsmith.synthesis.exit import require_table_file
    from dipsmith.synthesis.release import read_card, read_schema, read_set, write_set

    require_table_file(out)
    card, schema = read_card(release), read_schema(release)
    if not 1 <= which <= card.sets:
        raise UsageError(f"--set is {which}, but this release has {card.sets}")
    tables = read_set(release, which, schema)
    written, table = write_set(out, tables, schema, escape=escape), tables[schema.name]
    answer(
        json,
        {"out": str(out), "rows": table.num_rows, "set": which, "guarantee": card.guarantee},
        f"{table.num_rows:,} rows of set {which} ('{card.dataset}'; {card.guarantee}).",
        f"Written to {' and '.join(map(str, written))}",
    )
