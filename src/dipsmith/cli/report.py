"""`dipsmith report`: the releasable report of a release, made again from the release alone."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

from typer import Argument, Option

from dipsmith.cli.options import Json
from dipsmith.cli.terminal import answer

EXAMPLES = "Example:\n\n  dipsmith report release/ --out report.html"


def report(
    release: Annotated[Path, Argument(metavar="RELEASE", help="The folder of a release.")],
    out: Annotated[Path, Option("--out", help="The file to write, outside the release; must not exist.")],
    json: Json = False,
) -> None:
    """Write the report of a release: what was done, its distributions, the error of the noise, how to analyse it."""
    from dipsmith.report import figures
    from dipsmith.report.sections import page
    from dipsmith.synthesis.release import Release
    from dipsmith.synthesis.writing import require_absent, whole_file

    require_absent(out)
    loaded = Release.load(release)
    with whole_file(out) as work:
        work.write_text(page(loaded.report_page(beside=False)), "utf-8")
    card = loaded.card
    facts = {"out": str(out), "rows": card.rows, "guarantee": card.guarantee, "figures": figures.available()}
    answer(json, facts, str(card), f"Written to {out}; it uses only the release and may be published with it.")
