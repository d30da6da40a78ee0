"""Trees as pictures: as much as fits, widest branches first, nothing beyond the edge, the rest said in words."""

import re
from itertools import pairwise

import numpy as np
import pyarrow as pa
import pytest

import dipsmith as ds
from dipsmith.methods.model_tree import ModelTree, TreeNode
from dipsmith.report.canvas import standalone
from dipsmith.report.sections import section
from dipsmith.report.shapes import CHARACTER, Rectangle, Stroke, Words
from dipsmith.report.tree_figure import MARGIN, SLOT, WIDEST_SLOT, Box, draw_tree, tree_table, tree_words
from dipsmith.synthesis.trees import Extent, show_tree, tree_blocks

FIELDS = [
    {"name": "voted", "type": "string", "enum": ["yes", "no"], "other": "no"},
    {"name": "age", "type": "integer", "minimum": 18, "maximum": 29, "bins": {"width": 2}},
    {"name": "degree", "type": "string", "enum": ["yes", "no"], "other": "no"},
]


def wide(branches=20, depth=3, name="a column of a long name"):
    """A tree in which every box has so many branches, each narrower than the one before."""

    def node(label, rows, left):
        def below():
            sizes = rows * 0.5 ** np.arange(1, branches + 1)
            return [node(f"value {i}", float(s), left - 1) for i, s in enumerate(sizes)]

        return TreeNode(label, rows, (name,), branches=below) if left else TreeNode(label, rows, note="F 62 %")

    return ModelTree("a tree", node("all rows", 1e6, depth), "noisy numbers of rows", noise=(None, 3.0, 4.0, 5.0))


@pytest.fixture(scope="module")
def release():
    rng = np.random.default_rng(0)
    voted, degree = rng.random(3000) < 0.4, rng.random(3000) < 0.3
    words = {"voted": np.where(voted, "yes", "no"), "degree": np.where(degree, "yes", "no")}
    table = pa.table({**words, "age": rng.integers(18, 30, 3000)})
    schema = ds.Schema.from_dict({"name": "voters", "unit": "row", "neighbours": "replace", "fields": FIELDS})
    method = ds.Steps(layers=[["voted"], ["degree"]])
    return ds.synthesize(table, schema, method, budget=ds.PureDP(1), testing=True, noise_seed=1, seed=1)


@pytest.mark.slow
def test_the_section_of_a_report(release, snapshot):
    (found,) = [s for s in release.report_page().sections if s.heading == "How rows are divided"]
    snapshot("report-how-rows-are-divided", section(found))


def test_the_picture_has_what_the_papers_have(release):
    """Boxes with the columns that divide them, values and rows on the branches, layer by layer."""
    figure = tree_blocks(release)[0]
    words = re.findall(r">([^<>]+)</text>", figure.svg)
    (tree,) = release.model.inner.trees()
    yes, no = tree.root.branches()
    assert words.count("degree") == 2
    assert words.count("voted") == 1
    assert {f"{yes.rows:,.0f}", f"{no.rows:,.0f}", "layer 1", "layer 2", "age: 6", "cells"} <= set(words)
    assert "3,000 synthetic rows, ε = 1" in figure.caption
    assert "Shown are at most" not in figure.caption  # all of it is drawn
    rows = {row[1]: row[2] for row in figure.numbers.rows}
    assert rows["yes"] == pytest.approx(yes.rows, abs=0.05)


def test_what_is_said_of_an_end_is_told_whole():
    """Places are as wide as two lines of it, up to a limit; a short note makes none wider."""
    ends = tuple(Box(value, 20.0, note="13 columns: 430,080 cells") for value in ("yes", "no"))
    drawing = draw_tree(Box("all rows", 40.0, "voted", below=ends), ["", ""], public=False)
    said = [shape.text for shape in drawing.shapes if isinstance(shape, Words)]
    assert said.count("13 columns:") == said.count("430,080 cells") == 2
    short = tuple(Box(value, 20.0, note="F 62 %") for value in ("yes", "no"))
    assert draw_tree(Box("all rows", 40.0, "voted", below=short), [], public=True).width == MARGIN + 2 * SLOT
    long = (Box("yes", 20.0, note="a" * 99),)
    assert draw_tree(Box("all rows", 40.0, "voted", below=long), [], public=True).width == MARGIN + WIDEST_SLOT


@pytest.mark.parametrize("extent", [Extent(), Extent(2, 3, 5), Extent(3, 12, 64), Extent(1, 1, 1)])
def test_no_more_is_shown_than_the_extent_allows(extent):
    shown = show_tree(wide(), 1, extent)
    assert shown.box.ends <= extent.across
    assert shown.box.depth <= extent.depth
    assert not shown.whole
    assert all(len(box.below) <= extent.branches for _, box in shown.box.walk())


def test_the_widest_branches_are_shown_and_the_others_counted():
    shown = show_tree(wide(branches=30, depth=1), 1)
    *drawn, rest = shown.box.below
    assert [b.label for b in drawn] == ["value 0", "value 1", "value 2"]
    assert (rest.label, rest.left_out) == ("27 more", True)
    assert rest.rows == pytest.approx(1e6 * 0.5**3, rel=1e-6)
    assert "the 4 branches of a box with the most rows" in shown.extent.words


def test_a_box_that_is_not_opened_says_into_how_many_branches_it_goes():
    notes = [box.note for _, box in show_tree(wide(), 1).box.walk() if box.head and not box.below]
    assert notes
    assert set(notes) == {"into 20"}


def test_a_small_tree_is_shown_whole():
    shown = show_tree(wide(branches=2, depth=3), 1)
    assert shown.whole
    assert shown.box.ends == 8


@pytest.mark.parametrize("tree", [wide(), wide(2, 3, "x"), wide(3, 1, "an extraordinarily long name of a column")])
def test_nothing_is_drawn_beyond_the_edge(tree):
    shown = show_tree(tree, 1)
    drawing = draw_tree(shown.box, shown.layers, public=False)
    for shape in drawing.shapes:
        match shape:
            case Words((x, y)):
                half = CHARACTER * len(shape.text) / (2 if shape.anchor == "middle" else 1)
                low, high = (x - half, x + half) if shape.anchor == "middle" else (x, x + half)
                assert low >= -2
                assert high <= drawing.width + 2
                assert 8 <= y <= drawing.height
            case Rectangle((x, y)):
                assert x >= 0
                assert x + shape.width <= drawing.width
                assert y + shape.height <= drawing.height
            case Stroke():
                assert all(0 <= p[0] <= drawing.width and 0 <= p[1] <= drawing.height for p in (shape.start, shape.end))


def test_boxes_of_a_layer_do_not_touch():
    shown = show_tree(wide(), 1)
    drawing = draw_tree(shown.box, shown.layers, public=False)
    layers = {}
    for shape in drawing.shapes:
        if isinstance(shape, Rectangle):
            layers.setdefault(shape.corner[1], []).append((shape.corner[0], shape.corner[0] + shape.width))
    assert len(layers) > 1
    for boxes in layers.values():
        ordered = sorted(boxes)
        assert all(a[1] < b[0] for a, b in pairwise(ordered))


def test_public_counts_are_grey_and_solid_noisy_ones_blue_and_dashed():
    shown = show_tree(wide(), 1)
    looks = {}
    for public in (True, False):
        boxes = [s for s in draw_tree(shown.box, (), public=public).shapes if isinstance(s, Rectangle)]
        looks[public] = {(b.colour, b.dashed) for b in boxes}
    assert looks == {True: {("soft", False)}, False: {("accent", True)}}


def test_values_of_others_are_text_only():
    tree = ModelTree("t", TreeNode("all rows", 2.0, ("a",), branches=lambda: [TreeNode("<script>", 2.0)]), "rows")
    shown = show_tree(tree, 1)
    svg = standalone(shown.drawing().add_title("<b>", "c").to_svg(), "<i>")
    assert "<script>" not in svg
    assert "<b>" not in svg
    assert "<i>" not in svg


def test_numbers_and_words_have_every_branch(tmp_path):
    shown = show_tree(wide(branches=2, depth=2), 1)
    table = tree_table(shown.box, "t")
    assert [row[1] for row in table.rows[:3]] == ["all rows", "value 0", "value 0 / value 0"]
    assert len(table.rows) == 7
    assert tree_words(shown.box).endswith("and 1 more branches")


def test_a_png_holds_the_same_picture(tmp_path):
    pytest.importorskip("matplotlib")
    from PIL import Image

    drawing = show_tree(wide(), 1).drawing().add_title("A tree", "n and ε")
    drawing.to_png(tmp_path / "tree.png")
    with Image.open(tmp_path / "tree.png") as image:
        assert image.size == pytest.approx((2 * drawing.width, 2 * drawing.height), abs=2)
        dark = np.asarray(image.convert("L")) < 128
    assert dark.any(axis=0).mean() > 0.5  # boxes and lines from left to right, not paper alone
