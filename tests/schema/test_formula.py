"""Names in regression formulas."""

import pytest

from dipsmith.errors import UsageError
from dipsmith.schema.formula import Formula


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
    ],
)
def test_products_are_told_from_arithmetic(text, products):
    assert Formula.parse(text).products == products


def test_response_is_apart():
    formula = Formula.parse("log(pay/hours) ~ sex")
    assert formula.response == ("pay", "hours")
    assert formula.terms == (("sex",),)


@pytest.mark.parametrize("text", ["pay", "a ~ b ~ c", "", "y ~ a $ b"])
def test_other_text_is_refused(text):
    with pytest.raises(UsageError, match="analysis"):
        Formula.parse(text)
