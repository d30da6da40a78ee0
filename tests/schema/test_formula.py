"""Names in regression formulas."""

import re
from pathlib import Path

import pytest

from dipsmith.errors import UsageError
from dipsmith.schema.formula import Formula, parser


@pytest.mark.parametrize(
    ("text", "names"),
    [
        (
            "log(pay) ~ sex + race + age + I(age**2) + education | agency + occupation",
            ("pay", "sex", "race", "age", "education", "agency", "occupation"),
        ),
        ("np.log(pay) ~ C(race, Treatment(reference='E')) + 1", ("pay", "race")),
        ("`hours-per-week` ~ Q('marital-status') - 1", ("hours-per-week", "marital-status")),
        ("y ~ poly(x, 2, raw=True) + log1p(z)", ("y", "x", "z")),
        ("größe ~ alter", ("größe", "alter")),
        ("y ~ 1", ("y",)),
        ("y ~ x + (1 | school)", ("y", "x", "school")),
        ("y ~ spline(x, knots=None) - z", ("y", "x", "z")),
        ("I(y == 'no name') ~ Q(\"a`b\")", ("y", "a`b")),
    ],
)
def test_attributes_are_found_through_functions(text, names):
    assert Formula.parse(text).attributes == names


@pytest.mark.parametrize(
    ("text", "products"),
    [
        ("log(pay) ~ sex*agency + age", (("sex", "agency"),)),
        ("log(pay) ~ sex:agency:year", (("sex", "agency", "year"),)),
        ("y ~ (a + b)*c", (("a", "b", "c"),)),
        ("y ~ a + I(a*b)", ()),
        ("y ~ a | f + g", ()),
        ("y ~ a | f^g", (("f", "g"),)),
        ("y ~ (a + b)^2 + (c:d)", (("a", "b"), ("c", "d"))),
    ],
)
def test_products_are_told_from_arithmetic(text, products):
    assert Formula.parse(text).products == products


def test_response_is_apart():
    formula = Formula.parse("log(pay/hours) ~ sex")
    assert formula.response == ("pay", "hours")
    assert formula.terms == (("sex",),)


@pytest.mark.parametrize("text", ["pay", "a ~ b ~ c", "", "y ~ a $ b", "y ~", "~ y", "y ~ a[0]", "y ~ (a", "y ~ a b"])
def test_other_text_is_refused(text):
    with pytest.raises(UsageError, match="analysis"):
        Formula.parse(text)


def rules(text):
    """The rules of a grammar, without remarks."""
    lines = (re.match(r"\s*(\w+) +(.*?)( {2,}.*)?$", line) for line in text.splitlines())
    return {line[1]: line[2] for line in lines if line}


def test_the_page_prints_the_grammar_that_is_read():
    page = (Path(__file__).parents[2] / "docs" / "reference" / "formula.md").read_text("utf-8")
    stated = parser.__doc__.split("::")[1].split("A formula is as long")[0]
    assert rules(page.split("## Grammar")[1].split("```")[1].removeprefix("text")) == rules(stated)
    assert len(rules(stated)) == 18
