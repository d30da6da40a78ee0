"""`dipsmith sample`: further rows from the model of a release, free."""

from __future__ import annotations

from typing import Annotated

from typer import Option

from dipsmith.cli import options
from dipsmith.cli.terminal import answer

EXAMPLES = options.examples("dipsmith sample release/ --rows 10000 --seed 1 --out more.csv")


def sample(
    release: options.Release,
    out: options.NewTable,
    rows: Annotated[
        int | None, Option("--rows", help="How many; default: as many as a set of the release has.")
    ] = None,
    seed: options.DrawSeed = None,
    model: options.WhichModel = 1,
    escape: options.Escape = False,
    json: options.Json = False,
) -> None:
    """Draw further rows from the saved model of a release; reads nothing private and costs nothing."""
    from dipsmith.synthesis.exit import require_table_file
    from dipsmith.synthesis.release import Release, write_set

    require_table_file(out)
    loaded = Release.load(release)
    found = loaded.sample(rows, seed, model=model)
    tables = {loaded.schema.name: found} if loaded.schema.members is None else found
    written = write_set(out, tables, loaded.schema, escape=escape)
    card, drawn = loaded.card, tables[loaded.schema.name]
    facts = {"out": str(out), "rows": drawn.num_rows, "model": model, "seed": seed, "guarantee": card.guarantee}
    again = "drawn freshly" if seed is None else f"seed {seed}"
    answer(
        json,
        {**facts, "dataset": card.dataset, "method": card.method, "request": card.request},
        f"{drawn.num_rows:,} rows, {again}, from model-{model} of {card.method} in {release} ('{card.dataset}'; {card.guarantee}).",
        f"Nothing private was read and nothing was charged. A set stands for {loaded.people:,} rows of the table, however many "
        "are drawn.",
        f"Written to {' and '.join(map(str, written))}",
    )
