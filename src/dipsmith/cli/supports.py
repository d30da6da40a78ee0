"""`dipsmith supports`: what a release carries of a formula, or of some columns."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

from typer import Argument, Option

from dipsmith.cli.options import Json
from dipsmith.cli.terminal import answer, say, table

EXAMPLES = (
    "Examples:\n\n"
    "  dipsmith supports release/\n\n"
    '  dipsmith supports release/ "log(pay) ~ sex + age | agency"\n\n'
    "  dipsmith supports release/ sex pay --json"
)
PAIRS_SHOWN = 20


def supports(
    release: Annotated[Path, Argument(metavar="RELEASE", help="The folder of a release.")],
    asked: Annotated[
        list[str] | None,
        Argument(metavar="FORMULA|COLUMN", help="A formula, or columns; without, all pairs, the worst first."),
    ] = None,
    all_pairs: Annotated[bool, Option("--all", help="List all pairs, not the worst twenty.")] = False,
    json: Json = False,
) -> None:
    """Say what a release carries: measured, carried, or not carried, why, and what to ask the steward for."""
    from dipsmith.synthesis.release import Release

    loaded = Release.load(release)
    if asked:
        found = loaded.supports(*asked)
        answer(json, found.to_dict(), str(found))
        return
    pairs = loaded.support_index.worst_pairs()
    if json:
        answer(True, [p.to_dict() for p in pairs])
        return
    shown = pairs if all_pairs else pairs[:PAIRS_SHOWN]
    rows = [
        (p.asked, p.level, "–" if p.standard_error is None else f"±{p.standard_error:,.3g}", ", ".join(p.tables) or "–")
        for p in shown
    ]
    table("Pairs of columns, the worst first", ("pair", "support", "noise on a count", "noisy table"), rows, (2,))
    say(
        f"{len(pairs)} pairs with a private column"
        + (f", {len(pairs) - PAIRS_SHOWN} more: --all" if len(pairs) > len(shown) else "")
    )
