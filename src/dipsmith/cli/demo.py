"""`dipsmith demo`: the main job on simulated personnel records, in one command."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from dipsmith.cli.terminal import Json, emit, progress, say, table
from dipsmith.report.commands import command

if TYPE_CHECKING:
    from dipsmith.synthesis.release import Release

EPSILON = "0.75"
MARKER = ".dipsmith-demo"
ANALYSIS = "log(pay) ~ sex + race + age + I(age**2) + education | year + agency + occupation"
REFERENCE = {"sex": "M", "race": "E"}
FEWEST = 100
"""Employees per year, so that there are some of every race."""


def add_to(app: typer.Typer) -> None:
    """Register the command."""
    app.command(epilog="Example:\n\n  dipsmith demo --rows 20000")(demo)


def demo(
    rows: Annotated[int, typer.Option("--rows", help="Simulated employees per year.")] = 10_000,
    folder: Annotated[
        Path, typer.Option("--folder", help="Where to work; an earlier demo there is replaced.")
    ] = Path("demo"),
    json: Json = False,
) -> None:
    """Simulate personnel records, synthesise sex and race, and say where things are."""
    import shutil

    from dipsmith.errors import OutputError, UsageError
    from dipsmith.examples import personnel
    from dipsmith.methods.catalogue import METHODS
    from dipsmith.privacy.budget import PureDP
    from dipsmith.privacy.ledger import Ledger
    from dipsmith.schema import Schema
    from dipsmith.synthesis.synthesize import synthesize

    if rows < FEWEST:
        raise UsageError(
            f"--rows is {rows}, expected {FEWEST} or more; fewer do not suffice for the regression at the end"
        )
    if folder.exists():
        if not (folder / MARKER).is_file():
            raise OutputError(f"'{folder}' exists and is not an earlier demo; choose another --folder")
        shutil.rmtree(folder)
    folder.mkdir(parents=True)
    (folder / MARKER).write_text("Made by dipsmith demo; replaced by the next one.\n", "utf-8")
    with progress(json) as show:
        if show is not None:
            show("simulating", 0.0)
        personnel.write(folder, rows_per_year=rows)
        if show is not None:
            show("simulating", 1.0)
        schema = Schema.read(folder / "personnel.yaml")
        ledger = Ledger(folder / "budget.db")
        ledger.grant(schema.name, PureDP("1.5"), by="data office", why="demo")
        releases = {}
        for name in ("loglinear", "forest"):
            releases[name] = synthesize(
                folder / "personnel.csv",
                schema,
                METHODS[name](targets=["sex", "race"]),  # type: ignore[call-arg]
                budget=PureDP(EPSILON),
                ledger=ledger,
                request=f"demo {name}",
                progress=show,
            )
            releases[name].save(
                folder / ("release" if name == "loglinear" else f"release-{name}"), format="csv"
            )
        ledger.look(schema.name, "coefficients of log pay beside those of both releases")
        coefficients = _coefficients(folder / "personnel.csv", releases)
    release = releases["loglinear"]
    facts = {
        "folder": str(folder),
        "release": str(folder / "release"),
        "guarantee": release.card.guarantee,
        "remaining": ledger.show(schema.name).remaining,
        "coefficients": coefficients,
    }
    if json:
        emit(facts)
        return
    say(str(release.card))
    table(
        "Where things are",
        ("file", "what"),
        [
            (folder / "personnel.csv", "the confidential table (simulated)"),
            (folder / "personnel.yaml", "its schema: everything that is public"),
            (folder / "budget.db", f"the ledger: ε = {facts['remaining']:g} of 1.5 is left"),
            (folder / "release" / "card.html", "what was released, under which guarantee"),
            (folder / "release" / "synthetic-1.csv", "the synthetic table, by the log-linear labeller"),
            (folder / "release-forest", "the same by a forest of random trees, for comparison"),
        ],
    )
    if coefficients:
        say(f"Is the pay gap kept? {ANALYSIS}:")
        table(
            "Coefficients",
            ("against M and E", "confidential", "log-linear", "forest"),
            [
                (term, *(f"{value:+.4f}" for value in values.values()))
                for term, values in coefficients.items()
            ],
            right=(1, 2, 3),
        )
    say(
        f"Next: open {folder / 'release' / 'card.html'}, then: {command('verify', folder / 'release', '--ledger', folder / 'budget.db')}"
    )


def _coefficients(confidential: Path, releases: Mapping[str, Release]) -> dict[str, dict[str, float]]:
    """The coefficients of sex and race on simulated rows and on both releases; empty without the analysis extra."""
    from pyarrow.csv import ConvertOptions, read_csv

    from dipsmith.errors import MissingExtraError
    from dipsmith.inference.fit import fit

    codes = ConvertOptions(column_types={"occupation": "string"})
    found: dict[str, dict[str, float]] = {}
    try:
        for name, rows in (
            ("confidential", read_csv(confidential, convert_options=codes)),
            *((n, r.tables[0]) for n, r in releases.items()),
        ):
            fitted = fit(rows, ANALYSIS, reference=REFERENCE, rule="sampling").to_arrow().to_pylist()
            for line in fitted:
                if str(line["term"]).startswith(("sex", "race")):
                    found.setdefault(str(line["term"]), {})[name] = float(line["estimate"])
    except MissingExtraError:
        return {}
    return found
