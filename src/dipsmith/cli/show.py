"""`dipsmith show`: the trees of a release, in the terminal or as a picture."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

from typer import Argument, Option

from dipsmith.cli.options import Json, examples
from dipsmith.cli.terminal import emit, say, visible
from dipsmith.errors import UsageError

if TYPE_CHECKING:
    from rich.tree import Tree

    from dipsmith.report.tree_figure import Box
    from dipsmith.synthesis.release import Release
    from dipsmith.synthesis.trees import ShownTree

EXAMPLES = examples(
    "dipsmith show release/",
    "dipsmith show release/ --tree 2 --out tree.svg",
    "dipsmith show release/ --depth 6 --branches 10 --out tree.html",
)
ENDINGS = (".svg", ".png", ".html")
LISTED = 8
WIDEST = 64
"""Ends of a tree whose extent was asked for."""
LINES = 16
"""Ends of a tree in the terminal, where they stand one below the other."""


def show(
    release: Annotated[Path, Argument(metavar="RELEASE", help="The folder of a release.")],
    tree: Annotated[int, Option("--tree", help="Which tree, counted from 1.")] = 1,
    depth: Annotated[int | None, Option("--depth", help="The most layers to show; default 4.")] = None,
    branches: Annotated[
        int | None, Option("--branches", help="The most branches of one box, widest first; default 4.")
    ] = None,
    out: Annotated[
        Path | None, Option("--out", help="A new file, .svg, .png or .html; its numbers go beside it as .csv.")
    ] = None,
    json: Json = False,
) -> None:
    """Show how a release's model divides rows: which branch got which column, and how many rows; noisy numbers only."""
    from dipsmith.synthesis.release import Release
    from dipsmith.synthesis.trees import Extent, list_trees, show_tree, trees_of
    from dipsmith.synthesis.writing import require_absent

    if out is not None and out.suffix.lower() not in ENDINGS:
        raise UsageError(f"--out is '{out.name}', expected a file that ends in {', '.join(ENDINGS)}")
    for name, value in (("--depth", depth), ("--branches", branches)):
        if value is not None and value < 1:
            raise UsageError(f"{name} is {value}, expected at least 1")
    for file in () if out is None else (out, out.with_suffix(".csv")):
        require_absent(file)
    loaded = Release.load(release)
    found = trees_of(loaded)
    if not found:
        absent = next((m.missing for m in loaded.models if m.missing), "")
        raise UsageError(absent or f"a model of {loaded.card.method} is not made of trees; see report.html instead")
    if not 1 <= tree <= len(found):
        raise UsageError(f"--tree is {tree}, and there are {len(found)}; give a number from 1 to {len(found)}")
    usual, given = Extent(), depth is not None or branches is not None
    across = WIDEST if given else usual.across if out is not None else LINES
    asked = Extent(depth or usual.depth, branches or usual.branches, across)
    shown = show_tree(found[tree - 1], tree, asked)
    if out is not None:
        _write(shown, loaded, out)
    if json:
        written = {} if out is None else {"out": str(out), "numbers": str(out.with_suffix(".csv"))}
        emit({**shown.to_dict(), "trees": len(found), **written})
        return
    if out is None:
        _print(shown)
    if len(found) > 1:
        lines = list_trees(found)
        say("\n".join(["Trees:", *lines[:LISTED]]))
        if len(lines) > LISTED:
            say(f"… and {len(lines) - LISTED} more, to {len(lines)}")
    if not shown.whole:
        say(f"{shown.extent.words} More: --depth, --branches.")
    if out is not None:
        say(f"Written to {out} and {out.with_suffix('.csv')}; made from the release alone.")
    else:
        say(f"As a picture: dipsmith show {release} --tree {tree} --out tree.svg")


def _print(shown: ShownTree) -> None:
    """The tree as indented lines."""
    from rich.console import Console
    from rich.text import Text
    from rich.tree import Tree

    say(f"{shown.finding}. On each branch: {shown.tree.counts}.")
    if shown.noise:
        say("Noise on one count, layer by layer: " + ", ".join(f"±{sd:.3g}" for sd in shown.noise) + ".")

    def line(box: Box) -> Text:
        from dipsmith.synthesis.trees import tree_lines

        return Text(visible(tree_lines(box)), style="dim" if box.left_out else "")

    def grow(at: Tree, box: Box) -> None:
        for child in box.below:
            grow(at.add(line(child)), child)

    made = Tree(line(shown.box), guide_style="dim")
    grow(made, shown.box)
    width = None if sys.stdout.isatty() else 120
    Console(file=sys.stdout, width=width, highlight=False, markup=False, emoji=False).print(made)


def _write(shown: ShownTree, release: Release, out: Path) -> None:
    """The picture, and its numbers beside it."""
    from dipsmith.report import figures
    from dipsmith.report.canvas import standalone
    from dipsmith.report.content import Page, Section
    from dipsmith.report.sections import page
    from dipsmith.synthesis.writing import whole_file

    figure, ending = shown.figure(release), out.suffix.lower()
    alone = shown.drawing().add_title(figure.title, figure.caption)
    assert figure.numbers is not None
    if ending == ".png" and not figures.available():
        raise UsageError("a .png needs more libraries (pip install 'dipsmith[analysis]'); .svg and .html need none")
    with whole_file(out) as work:
        if ending == ".png":
            alone.to_png(work)
        elif ending == ".svg":
            work.write_text(standalone(alone.to_svg(), figure.alternative), "utf-8")
        else:
            title = f"A tree of the release of '{release.card.dataset}'"
            section = Section("How rows are divided", (figure, figure.numbers))
            stamp = "NOT PRIVATE: made with a fixed noise seed, for tests only" if release.card.testing else ""
            lead = f"{release.card.rows:,} synthetic rows: {release.card.guarantee}. {release.card.meaning}"
            made = Page(title, (lead,), (section,), stamp=stamp, footer="Made from the release alone.")
            work.write_text(page(made), "utf-8")
    with whole_file(out.with_suffix(".csv")) as work:
        work.write_text(figure.numbers.to_csv(), "utf-8")
