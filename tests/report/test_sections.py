"""Content to HTML: a snapshot for each kind of block, and what every page must have."""

import html

import pytest

from dipsmith.report.content import Code, Facts, Figure, Heading, Page, Section, Table
from dipsmith.report.sections import (
    anchor,
    block,
    column,
    contents,
    facts,
    figure,
    frame,
    inline_table,
    number,
    page,
    section,
    table,
)

SCORES = Table.of(
    "Scores <all>",
    ("metric", "value", "n", "note"),
    [("TVD & more", 0.012345, 1234567, "worst"), ("KS", float("nan"), 3, ""), ("p", 1e-9, None, "“tiny”")],
    "Floors beside scores.",
)
DRAWING = '<svg viewBox="0 0 1 1"><path d="M0 0"/></svg>'
DRAWN = Figure(
    "Is it kept?",
    DRAWING,
    "n = 10, ε = 1.",
    'Bars; "largest" is A',
    SCORES,
    Facts((("Method", "flat"),)),
    "numbers/bars",
)


@pytest.mark.parametrize(
    ("name", "made"),
    [
        ("table", lambda: table(SCORES)),
        ("table-sortable", lambda: table(SCORES, sortable=True)),
        ("facts", lambda: facts(Facts((("Budget", "ε = 1"), ("Unit", "<row>"))))),
        ("moment", lambda: facts(Facts((("Made", "2026-11-08T22:28:41.056182+00:00, as <1>"),)))),
        ("figure", lambda: figure(DRAWN)),
        ("figure-without-drawing", lambda: figure(Figure("t", "", "c", "a", SCORES))),
        ("code", lambda: block(Code("x <- 1"))),
        ("heading", lambda: block(Heading("By & by"))),
        (
            "section",
            lambda: section(Section("Who is served worst", ("A <sentence>.", Heading("Part"), Code("y")))),
        ),
        ("contents", lambda: contents(Page("t", (), (Section("One", ()), Section("Two & three", ()))))),
    ],
)
def test_every_block_is_as_it_was(snapshot, name, made):
    snapshot(name, made())


def test_a_column_without_a_name_cannot_be_sorted_by():
    """A button without a name says nothing to whoever cannot see it."""
    made = table(Table.of("t", ("what", ""), [("a", "x"), ("b", "y"), ("c", "z")]), sortable=True)
    assert made.count("<button") == 1


def test_a_releasable_page(snapshot):
    made = page(Page("Report", ("First.", "Second."), (Section("Facts", (SCORES,)),), footer="end"))
    head, _, rest = made.partition("<style>")
    snapshot("page", head + rest.partition("</style>")[2])
    assert "<script" not in made
    assert "CONFIDENTIAL" not in made
    assert "--alarm" in made


def test_a_confidential_page_says_so_on_screen_and_on_paper():
    made = page(Page("Report", (), (), confidential=True, sortable=True, stamp="NOT PRIVATE"))
    assert "<title>CONFIDENTIAL: Report</title>" in made
    assert '<div class="band" role="alert">CONFIDENTIAL' in made
    assert "@page" in made
    assert "@top-center" in made
    assert "<script>" in made
    assert 'class="stamp">NOT PRIVATE' in made


def test_the_page_follows_dark_mode_and_print():
    made = page(Page("t", (), ()))
    assert "prefers-color-scheme: dark" in made
    assert "@media print" in made
    assert "http" not in made  # nothing is fetched from anywhere


def test_everything_is_escaped():
    nasty = "<script>alert(1)</script>"
    made = page(
        Page(
            nasty,
            (nasty,),
            (
                Section(
                    nasty,
                    (
                        nasty,
                        Table.of(nasty, (nasty,), [(nasty,)], nasty),
                        Code(nasty),
                        Facts(((nasty, nasty),)),
                    ),
                ),
            ),
            footer=nasty,
            stamp=nasty,
        )
    )
    assert nasty not in made
    assert figure(Figure(nasty, DRAWING, nasty, f'"{nasty}', file=nasty)).count("<script>") == 0


@pytest.mark.parametrize(
    ("value", "shown"),
    [
        (1234567, "1,234,567"),
        (1234.5, "1,234"),
        (0.04567, "0.0457"),
        (3e-9, "3.0e-9"),
        (-0.00002, "-2.0e-5"),
        (0.0, "0"),
        (None, "–"),
        (float("nan"), "–"),
        ("x", "x"),
    ],
)
def test_numbers_are_readable(value, shown):
    assert number(value) == shown


def test_numbers_of_a_column_are_right_aligned_and_texts_are_not():
    made = table(SCORES)
    assert '<th scope="col" class="n w">value</th>' in made
    assert '<th scope="col" class="w">note</th>' in made
    assert '<td class="n">1,234,567</td>' in made
    assert '<th scope="row" class="w">TVD &amp; more</th>' in made  # the first column heads its row


@pytest.mark.parametrize(
    ("name", "values", "shown"),
    [
        ("KS", [0.038, 0.0286, None, 0.0071], ["0.0380", "0.0286", "–", "0.0071"]),
        ("score", [0.00481, 3.9, 1.0, 0.0], ["0.00481", "3.90", "1.00", "0"]),
        ("p", [0.04, 1e-12, float("nan")], ["0.0400", "< 0.0001", "–"]),
        ("change", [-0.5, 0.25], ["−0.500", "0.250"]),
        ("count", [1234, 5], ["1,234", "5"]),
        ("large", [12345.6, 0.5], ["12,346", "0.500"]),
        ("tiny", [3e-5, 0.2], ["3.0e-5", "0.200"]),
        ("text", ["-a", "b"], ["-a", "b"]),
    ],
)
def test_numbers_of_one_column_share_their_decimals(name, values, shown):
    assert column(name, values) == shown


def test_a_row_that_does_not_fit_is_refused():
    with pytest.raises(ValueError, match="does not fit its 2 columns"):
        Table.of("t", ("a", "b"), [(1,)])


def test_csv_has_every_digit_and_no_nan():
    text = SCORES.to_csv()
    assert text.splitlines()[1] == "TVD & more,0.012345,1234567,worst"
    assert text.splitlines()[2] == "KS,,3,"


def test_anchors_are_addresses():
    assert anchor("Can a classifier tell them apart?") == "can-a-classifier-tell-them-apart"


def test_block_takes_any_content():
    assert block("a < b") == "<p>a &lt; b</p>"
    assert block(Heading("h")) == "<h3>h</h3>"


def test_a_framed_page_keeps_its_styles_to_itself():
    whole = page(Page("A & b", ("x",), (), confidential=True))
    made = frame(whole)
    assert made.count("<") == 2  # the frame alone: the page is text inside its attribute
    assert 'title="CONFIDENTIAL: A &amp; b"' in made
    assert html.unescape(made.partition('srcdoc="')[2].removesuffix('"></iframe>')) == whole


def test_a_table_by_itself_needs_no_stylesheet():
    made = inline_table(SCORES)
    assert "class=" not in made.replace('class="scroll"', "")
    assert '<td style="text-align: right; white-space: nowrap">1,234,567</td>' in made
    assert '<th scope="row" style="text-align: left; white-space: nowrap">KS</th>' in made
    assert "<thead>" in made
