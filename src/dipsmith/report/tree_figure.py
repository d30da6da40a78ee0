"""A tree as layered boxes: in each box the columns that divide it, on each branch its value and its rows.

All rows stand at the top; what is drawn below was chosen before (`Box`), so that nothing is cut at the edge. Lines are
the wider the more rows go along them. Where counts are noisy, boxes are blue and dashed; public facts are grey.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from dipsmith.report.canvas import shorten, wrap_label
from dipsmith.report.content import Cell, Table
from dipsmith.report.shapes import LEADING, Drawing, Rectangle, Shape, Stroke, Words

SLOT, WIDEST_SLOT = 82.0, 130.0
"""Pixels across for each end of the tree; at most, where what is said of an end needs them."""
LETTER = 7.0
"""Pixels across of a letter in a box, in a wide font."""
GAP = 10.0
MARGIN = 88.0
"""Pixels for the names of the layers."""
BRANCH, BOX = 64.0, 40.0
"""Pixels down: from a box to the next one, and of a box."""
THICKEST = 7.0
"""Pixels across of a branch that takes all rows."""


@dataclass(frozen=True)
class Box:
    """A node that is drawn: the value that leads to it, its rows, what divides it, what else is said of it.

    `left_out` boxes stand for branches that are not drawn one by one.
    """

    label: str
    rows: float | None
    head: str = ""
    note: str = ""
    below: tuple[Box, ...] = ()
    left_out: bool = False

    @property
    def ends(self) -> int:
        """How many places it needs side by side."""
        return sum(box.ends for box in self.below) or 1

    @property
    def depth(self) -> int:
        """How many layers it has below."""
        return max((1 + box.depth for box in self.below), default=0)

    def walk(self, path: tuple[str, ...] = ()) -> Iterator[tuple[tuple[str, ...], Box]]:
        """Every box with the values that lead to it, from the top down."""
        yield path, self
        for box in self.below:
            yield from box.walk((*path, box.label))


def count_text(rows: float | None) -> str:
    """A number of rows as people read it.

    >>> count_text(12345.6), count_text(0.4), count_text(None)
    ('12,346', '0.4', '–')
    """
    if rows is None:
        return "–"
    return f"{rows:,.0f}" if rows >= 10 or rows == round(rows) else f"{rows:.1f}"


def draw_tree(root: Box, layers: Sequence[str], *, public: bool) -> Drawing:
    """The drawing; `layers` says beside every layer what it is, a line of text or two."""
    places = dict[int, tuple[float, float]]()
    slot = _slot(root)
    _place(root, 0, MARGIN, slot, places)
    whole = root.rows or 1.0
    shapes: list[Shape] = []
    colour = "soft" if public else "accent"
    for i, text in enumerate(layers):
        for j, line in enumerate(text.split("\n")):
            at = (0.0, _top(i) + BOX / 2 + LEADING * (j + 0.3 - text.count("\n") / 2))
            shapes.append(Words(at, line, "soft", "start"))
    branches, boxes = list[Shape](), list[Shape]()
    for _, box in root.walk():
        x, y = places[id(box)]
        for child in box.below:
            to_x, to_y = places[id(child)]
            share = 0.0 if child.rows is None else max(0.0, child.rows) / whole
            width = max(0.8, THICKEST * min(1.0, share))
            branches.append(Stroke((x, y + BOX), (to_x, to_y - 2 * LEADING - 4), colour, width))
            if not child.left_out:
                branches.append(Stroke((to_x, to_y - 4), (to_x, to_y), colour, width))
        boxes += _box(box, x, y, slot, colour, dashed=not public, top=box is root)
    width = MARGIN + root.ends * slot
    return Drawing(width, _top(root.depth) + BOX + 6, (*shapes, *branches, *boxes))


def _top(layer: int) -> float:
    return 20.0 + layer * (BOX + BRANCH)


def _slot(root: Box) -> float:
    """Wide enough for what is said of the ends, on two lines."""
    notes = [box.note for _, box in root.walk() if not (box.below or box.head)]
    needed = max((_two_lines(note) for note in notes), default=0)
    return min(WIDEST_SLOT, max(SLOT, needed * LETTER + GAP + 8))


def _two_lines(text: str) -> int:
    """The letters of the longer line where a text is put on two as evenly as its words allow.

    >>> _two_lines("13 columns: 430,080 cells"), _two_lines("F 62 %"), _two_lines("")
    (13, 4, 0)
    """
    words = text.split()
    halves = [(" ".join(words[:i]), " ".join(words[i:])) for i in range(len(words))]
    return min((max(map(len, half)) for half in halves), default=0)


def _place(box: Box, layer: int, left: float, slot: float, places: dict[int, tuple[float, float]]) -> None:
    """Ends side by side, every other box in the middle of its branches."""
    at = left
    for child in box.below:
        _place(child, layer + 1, at, slot, places)
        at += child.ends * slot
    middle = left + slot / 2
    if box.below:
        middle = (places[id(box.below[0])][0] + places[id(box.below[-1])][0]) / 2
    places[id(box)] = (middle, _top(layer))


def _box(box: Box, x: float, y: float, slot: float, colour: str, *, dashed: bool, top: bool) -> list[Shape]:
    room = max(1, box.ends) * slot - GAP
    most = int(room / LETTER)
    shapes: list[Shape] = []
    rows = count_text(box.rows)
    above = f"{box.label}: {rows} rows" if top else shorten(box.label, most)
    if top:
        shapes.append(Words((x, y - 6), above))
    else:
        shapes.append(Words((x, y - LEADING - 7), above, whole=box.label))
        shapes.append(Words((x, y - 7), rows, "soft"))
    if box.left_out:
        return shapes
    head, note = box.head, box.note
    lines = [(text, True) for text in wrap_label(head, most, 1 if note else 2).split("\n") if text]
    lines += [(text, False) for text in wrap_label(note, most, 1 if head else 2).split("\n") if text]
    if not lines:
        return [*shapes, Rectangle((x - 5, y), 10, 10, colour, dashed=False)]
    wide = min(room, max(48.0, max((LETTER + bold) * len(text) for text, bold in lines) + 12))
    shapes.append(Rectangle((x - wide / 2, y), wide, BOX, colour, dashed))
    for i, (text, bold) in enumerate(lines):
        at = y + BOX / 2 + 4 + LEADING * (i - (len(lines) - 1) / 2)
        shapes.append(Words((x, at), text, bold=bold, whole=head if bold else note))
    return shapes


def tree_table(root: Box, caption: str) -> Table:
    """The numbers of a drawn tree, a row for each branch."""
    rows: list[tuple[Cell, ...]] = []
    for path, box in root.walk():
        where = " / ".join(path) or box.label
        rows.append((len(path), where, None if box.rows is None else round(box.rows, 1), box.head, box.note))
    return Table.of(caption, ("layer", "branch", "rows", "divided by", "note"), rows)


def tree_words(root: Box, most: int = 6) -> str:
    """The tree for those who do not see it: the first branches in words."""
    told = []
    for path, box in root.walk():
        where = " / ".join(path) or box.label
        what = f", divided by {box.head}" if box.head else f", {box.note}" if box.note else ""
        told.append(f"{where}: {count_text(box.rows)} rows{what}")
    rest = len(told) - most
    return "; ".join(told[:most]) + (f"; and {rest} more branches" if rest > 0 else "")
