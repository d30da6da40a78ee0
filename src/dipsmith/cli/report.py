"""`dipsmith report`: the releasable report of a release, made again from the release alone."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from dipsmith.cli.terminal import Json, emit, say


def add_to(app: typer.Typer) -> None:
    """Register the command."""
    app.command(epilog="Example:\n\n  dipsmith report release/ --out report.html")(report)


def report(
    release: Annotated[Path, typer.Argument(metavar="RELEASE", help="The folder of a release.")],
    out: Annotated[
        Path, typer.Option("--out", help="The file to write, outside the release; must not exist.")
    ],
    json: Json = False,
) -> None:
    """Write the report of a release: what was done, its distributions, the error of the noise, how to analyse it."""
    from dipsmith.report import figures
    from dipsmith.report.sections import page
    from dipsmith.synthesis.release import Release
    from dipsmith.synthesis.writing import require_absent, whole_file

    require_absent(out)
    loaded = Release.load(release)
    text = page(loaded.report_page())
    with whole_file(out) as work:
        work.write_text(text, "utf-8")
    if json:
        emit(
            {
                "out": str(out),
                "rows": loaded.card.rows,
                "guarantee": loaded.card.guarantee,
                "figures": figures.available(),
            }
        )
        return
    say(str(loaded.card))
    say(f"Written to {out}; it uses only the release and may be published with it.")
