"""The trees of a release's models, as much of each as a page shows: widest branches first, and what is left out in words.

Made from the model files alone: noisy numbers and public facts.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from dipsmith.methods.model_tree import ModelTree, PathShares, TreeNode, WithPaths, WithTrees
from dipsmith.report.commands import command
from dipsmith.report.content import Block, Code, Figure, Table
from dipsmith.report.shapes import Drawing
from dipsmith.report.tree_figure import Box, count_text, draw_tree, tree_table, tree_words

if TYPE_CHECKING:
    from dipsmith.synthesis.fitted import FittedModel
    from dipsmith.synthesis.release import Release

MOST_TREES = 3
"""Trees in a report; a command draws every other one."""


@dataclass(frozen=True)
class Extent:
    """How much of a tree is shown: layers below all rows, branches of one node, ends side by side."""

    depth: int = 4
    branches: int = 4
    across: int = 8

    @property
    def words(self) -> str:
        """What the extent leaves out."""
        return (
            f"Shown are at most {self.depth} layers, the {self.branches} branches of a box with the most rows and "
            f"{self.across} ends side by side; 'more' counts branches that are left out, 'into' those of a box that is not opened."
        )


@dataclass(frozen=True)
class ShownTree:
    """A tree as far as it is shown; `whole` says whether nothing is left out."""

    number: int
    tree: ModelTree
    box: Box
    extent: Extent
    whole: bool

    @property
    def finding(self) -> str:
        """How it divides rows, in a sentence."""
        return self.tree.finding

    @property
    def layers(self) -> tuple[str, ...]:
        """What stands beside every layer: its number, and the noise on its counts where it is known."""
        told = ["" for _ in range(self.box.depth + 1)]
        for i in range(1, len(told)):
            noise = self.tree.noise[i] if i < len(self.tree.noise) else None
            told[i] = f"layer {i}" + (f"\nnoise ±{noise:.3g}" if noise else "")
        return tuple(told)

    def drawing(self) -> Drawing:
        """The picture."""
        return draw_tree(self.box, self.layers, public=self.tree.public)

    def figure(self, release: Release) -> Figure:
        """The picture with its words and numbers."""
        noise = (
            " Noise: its standard deviation on one count, before counts were made to agree." if any(self.noise) else ""
        )
        left_out = "" if self.whole else f" {self.extent.words}"
        return Figure(
            title=self.finding,
            svg=self.drawing().to_svg(),
            caption=f"In each box the column that divides it, on each branch its value and rows ({self.tree.counts}); wider lines "
            f"take more rows.{noise}{left_out} {release.card.rows:,} synthetic rows, {release.card.price}.",
            alternative=f"A tree of boxes. {self.finding}. {tree_words(self.box)}.",
            numbers=tree_table(self.box, self.finding),
        )

    @property
    def noise(self) -> tuple[float, ...]:
        """The standard deviations of the layers that are shown."""
        return tuple(sd for sd in self.tree.noise[1 : self.box.depth + 1] if sd)

    def to_dict(self) -> dict[str, Any]:
        """The tree as JSON-able values."""
        facts = {"tree": self.number, "finding": self.finding, "counts": self.tree.counts, "public": self.tree.public}
        return {**facts, "noise": list(self.tree.noise), "whole": self.whole, "root": _plain(self.box)}


def trees_of(release: Release) -> list[ModelTree]:
    """Every tree of every model; none of models that have none, or whose package is not installed."""
    inner = (model.inner for model in release.models if not model.missing)
    return [tree for model in inner if isinstance(model, WithTrees) for tree in model.trees()]


def show_tree(tree: ModelTree, number: int, extent: Extent | None = None) -> ShownTree:
    """As much of a tree as `extent` allows: layer by layer, the boxes with the most rows first."""
    extent = extent or Extent()
    root = _NodeBox(tree.root)
    layer, room, whole = [root], extent.across - 1, True
    for depth in range(extent.depth + 1):
        waiting = sorted((n for n in layer if n.node.divided_by), key=lambda n: -(n.node.rows or 0.0))
        layer = []
        for i, shown in enumerate(waiting):
            # every box of a layer gets as much room as is left for it and those after it
            fair = min(room, -(-room // (len(waiting) - i)))
            room -= shown.expand(extent.branches, fair) if depth < extent.depth else 0
            whole &= shown.whole
            layer += shown.below
    return ShownTree(number, tree, root.box(), extent, whole)


def path_shares_of(models: Sequence[FittedModel]) -> list[PathShares]:
    """How often the first model's paths ask each column; nothing of models without paths."""
    inner = models[0].inner if models and not models[0].missing else None
    return list(inner.path_shares()) if isinstance(inner, WithPaths) else []


def path_notes(models: Sequence[FittedModel], *, planned: bool) -> tuple[str, ...]:
    """Which regressions the labels attenuate, and by how much, for the card."""
    notes = [paths.sentence for paths in path_shares_of(models)]
    return (
        (*notes, "Planned analyses are not attenuated: labels are adjusted to them.")
        if notes and planned
        else tuple(notes)
    )


def _path_blocks(release: Release) -> list[Block]:
    blocks: list[Block] = []
    for paths in path_shares_of(release.models):
        label = " × ".join(paths.targets)
        caption = f"Share of the rows whose label ({label}) is drawn on a path that asks the column, least asked first"
        rows = [(name, f"{100 * share:.0f} %") for name, share in paths.worst_first]
        blocks += [Table.of(caption, ("column", "on paths of"), rows), paths.sentence]
    return blocks


def tree_blocks(release: Release) -> tuple[Block, ...]:
    """The first trees of a release, for its report; nothing where no model has one."""
    found = trees_of(release)
    figures = [show_tree(tree, i).figure(release) for i, tree in enumerate(found[:MOST_TREES], start=1)]
    if not figures:
        return ()
    rest = len(found) - len(figures)
    more = f"{rest} more trees are drawn by:" if rest > 0 else "To see more of it, or as a file:"
    option = ("--tree", str(MOST_TREES + 1)) if rest > 0 else ("--depth", "6")
    return (*figures, *_path_blocks(release), more, Code(command("show", "FOLDER", *option, "--out", "tree.svg")))


class _NodeBox:
    """A node on its way to a box: which of its branches are shown is decided when there is room."""

    def __init__(self, node: TreeNode) -> None:
        self.node = node
        self.below: list[_NodeBox] = []
        self.rest: list[TreeNode] = []
        self.opened = False

    @property
    def whole(self) -> bool:
        """Whether all its branches are shown."""
        return self.opened and not self.rest

    def expand(self, most: int, room: int) -> int:
        """Show as many branches as may be, the one with the most rows first; the room that they take."""
        branches = list(self.node.branches())
        order = sorted(range(len(branches)), key=lambda i: (-(branches[i].rows or 0.0), i))
        most = min(most, room + 1)
        shown = len(branches) if len(branches) <= most else most - 1
        if shown < 1:
            return 0
        # those that are shown keep their own order
        self.below = [_NodeBox(branches[i]) for i in sorted(order[:shown])]
        self.rest = [branches[i] for i in order[shown:]]
        self.opened = True
        return len(self.below) + bool(self.rest) - 1

    def box(self) -> Box:
        """What is drawn."""
        node, below = self.node, [shown.box() for shown in self.below]
        if self.rest:
            rows = None if any(n.rows is None for n in self.rest) else sum(n.rows or 0.0 for n in self.rest)
            below.append(Box(f"{len(self.rest)} more", rows, left_out=True))
        note = node.note
        if node.divided_by and not self.opened:
            note = f"into {len(node.branches()):,}"
        return Box(node.label, node.rows, " × ".join(node.divided_by), note, tuple(below))


def _plain(box: Box) -> dict[str, Any]:
    facts: dict[str, Any] = {"label": box.label, "rows": box.rows, "divided_by": box.head, "note": box.note}
    if box.left_out:
        return facts | {"left_out": True}
    return facts | {"branches": [_plain(b) for b in box.below]}


def tree_lines(box: Box) -> str:
    """What a line of text says of a box."""
    what = f"  ▸ {box.head}" if box.head else ""
    return f"{box.label}  {count_text(box.rows)}{what}" + (f"  ({box.note})" if box.note else "")


def list_trees(trees: Sequence[ModelTree]) -> list[str]:
    """A line for each tree."""
    return [f"{i}  {tree.finding}" for i, tree in enumerate(trees, start=1)]
