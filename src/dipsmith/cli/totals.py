"""`dipsmith totals`: weighted totals of the population, from the noisy totals of a survey weight."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer
from typer import Argument, Option

from dipsmith.cli.fit import as_csv, estimate_lines
from dipsmith.cli.options import Json, examples
from dipsmith.cli.terminal import emit, say
from dipsmith.errors import UsageError

EXAMPLES = examples(
    "dipsmith totals release/                       # the whole population",
    "dipsmith totals release/ region --level 0.9",
    "dipsmith totals release/ sex region --sample --csv > totals.csv",
)


def totals(
    release: Annotated[Path, Argument(metavar="RELEASE", help="The folder of a release with a survey weight.")],
    columns: Annotated[
        list[str] | None, Argument(metavar="[COLUMNS]...", help="The columns that totals are by.")
    ] = None,
    level: Annotated[float, Option("--level", help="The level of the intervals.")] = 0.95,
    sample: Annotated[
        bool, Option("--sample", help="Intervals for the confidential sample's totals: noise alone counts.")
    ] = False,
    table: Annotated[
        str | None,
        Option("--table", metavar="NAME", help="Of households with members: the table whose weight is meant."),
    ] = None,
    csv: Annotated[bool, Option("--csv", help="Print the totals as CSV on standard output.")] = False,
    json: Json = False,
) -> None:
    """Tell how many people of the population there are, by some columns, with honest intervals."""
    from dipsmith.inference.weighted_totals import weighted_totals

    if csv and json:
        raise UsageError("--csv and --json are two forms of one answer; give one")
    found = weighted_totals(release, *columns or (), level=level, sampling=not sample, table=table)
    if json:
        facts = {"level": found.level, "rule": found.rule, "notes": list(found.notes)}
        emit({**facts, "totals": estimate_lines(found)})
    elif csv:
        typer.echo(as_csv(found), nl=False)
    else:
        say(str(found))
