"""`dipsmith demo`: the main job on simulated personnel records, in one command."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from dipsmith.cli.terminal import Json, emit, progress, say, table

EPSILON = "0.75"
MARKER = ".dipsmith-demo"


def add_to(app: typer.Typer) -> None:
    """Register the command."""
    app.command(epilog="Example:\n\n  dipsmith demo --rows 20000")(demo)


def demo(
    rows: Annotated[int, typer.Option("--rows", help="Simulated employees per year.")] = 25_000,
    folder: Annotated[
        Path, typer.Option("--folder", help="Where to work; an earlier demo there is replaced.")
    ] = Path("demo"),
    json: Json = False,
) -> None:
    """Simulate personnel records, synthesise sex and race, and say where things are."""
    import shutil

    from dipsmith.errors import OutputError
    from dipsmith.examples import personnel
    from dipsmith.methods.catalogue import METHODS
    from dipsmith.privacy.budget import PureDP
    from dipsmith.privacy.ledger import Ledger
    from dipsmith.schema import Schema
    from dipsmith.synthesis.synthesize import synthesize

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
        release = synthesize(
            folder / "personnel.csv",
            schema,
            METHODS["loglinear"](targets=["sex", "race"]),  # type: ignore[call-arg]
            budget=PureDP(EPSILON),
            ledger=ledger,
            request="demo",
            progress=show,
        )
        release.save(folder / "release", format="csv")
    facts = {
        "folder": str(folder),
        "release": str(folder / "release"),
        "guarantee": release.card.guarantee,
        "remaining": ledger.show(schema.name).remaining,
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
            (folder / "release" / "synthetic-1.csv", "the synthetic table"),
        ],
    )
    say(
        f"Next: open {folder / 'release' / 'card.html'}, then: dipsmith verify {folder / 'release'} --ledger {folder / 'budget.db'}"
    )
