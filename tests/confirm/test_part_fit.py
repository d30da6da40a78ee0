"""The regression of a part: right where it can be, silent where it cannot."""

import warnings

import numpy as np
import pytest
from confirm_tables import schema_of, table_of

from dipsmith.confirm.design import Combination, PartNumbers, VoteDesign, estimate
from dipsmith.counting.count import BatchRows
from dipsmith.counting.values import ValueReading
from dipsmith.errors import UsageError
from dipsmith.regression.logistic import maximum_likelihood
from dipsmith.regression.model_frame import ModelFrame
from dipsmith.sources import source


def one(name, weight=1.0):
    return Combination(((name, weight),))


def fitted(numbers, names, wanted, family="ols"):
    return estimate(numbers, names, family, wanted)


def sample(rows=400, seed=0, groups=(5, 40)):
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(rows, 3)) + np.array([0, 100, 0])
    codes = tuple(rng.integers(0, size, rows) for size in groups)
    y = X @ [1.0, -2.0, 0.5] + sum(np.sin(c) for c in codes) + rng.normal(size=rows)
    return PartNumbers(y, X, tuple(np.unique(c, return_inverse=True)[1] for c in codes))


@pytest.mark.parametrize("groups", [(), (5,), (5, 40), (30, 4, 7)], ids=str)
def test_least_squares_with_fixed_effects_is_that_of_indicators(groups):
    numbers = sample(groups=groups)
    whole = np.column_stack([numbers.X, *(np.eye(g.max() + 1)[g] for g in numbers.groups)])
    expected = np.linalg.lstsq(whole, numbers.y, rcond=None)[0][:3]
    names = ("a", "b", "c")
    found = [fitted(numbers, names, one(n)) for n in names]
    np.testing.assert_allclose(found, expected, rtol=1e-7)


def test_the_intercept_is_told_with_columns_far_from_zero():
    numbers = sample(groups=())
    names = ("Intercept", "a", "b", "c")
    X = np.column_stack([np.ones(len(numbers.y)), numbers.X])
    expected = np.linalg.lstsq(X, numbers.y, rcond=None)[0]
    found = [fitted(PartNumbers(numbers.y, X, ()), names, one(n)) for n in names]
    np.testing.assert_allclose(found, expected, rtol=1e-6)


def test_a_mean_and_a_difference():
    y = np.array([1.0, 2.0, 6.0])
    assert fitted(PartNumbers(y, np.ones((3, 1)), ()), ("Intercept",), one("Intercept")) == pytest.approx(3)
    numbers, both = sample(groups=()), Combination((("a", 1.0), ("c", -1.0)))
    a, c = (fitted(numbers, ("a", "b", "c"), one(n)) for n in "ac")
    assert fitted(numbers, ("a", "b", "c"), both) == pytest.approx(a - c)


def test_logistic_is_that_of_maximum_likelihood():
    numbers = sample(groups=(4,))
    y = (numbers.y + 200 > np.random.default_rng(1).normal(size=len(numbers.y)) * 3).astype(float)
    whole = np.column_stack([numbers.X, np.eye(4)[numbers.groups[0]]])
    expected = maximum_likelihood(ModelFrame(y, whole, tuple("abcdefg"), (), None, 0))
    made = PartNumbers(y, numbers.X, numbers.groups)
    found = [fitted(made, ("a", "b", "c"), one(n), "logistic") for n in "abc"]
    np.testing.assert_allclose(found, expected.values[:3], rtol=1e-6)


def test_what_is_not_determined_is_not_told():
    numbers = sample(groups=(5,))
    absent = np.column_stack([numbers.X, np.zeros(400), numbers.X[:, 0]])
    names = ("a", "b", "c", "absent", "a again")
    made = PartNumbers(numbers.y, absent, numbers.groups)
    assert fitted(made, names, one("absent")) is None
    assert fitted(made, names, one("a")) is None
    assert fitted(made, names, one("b")) == pytest.approx(fitted(numbers, names[:3], one("b")))
    assert fitted(made, names, Combination((("a", 1.0), ("a again", 1.0)))) == pytest.approx(
        fitted(numbers, names[:3], one("a"))
    )


def test_a_column_that_fixed_effects_say_is_not_told():
    numbers = sample(groups=(5, 9))
    within = np.column_stack([numbers.X, numbers.groups[0] * 1e6 + 3])
    assert fitted(PartNumbers(numbers.y, within, numbers.groups), ("a", "b", "c", "d"), one("d")) is None


@pytest.mark.parametrize("family", ["ols", "logistic"])
@pytest.mark.parametrize(
    "y",
    [np.zeros(0), np.ones(1), np.ones(3), np.array([1e308, -1e308, 1e308, 5.0]), np.array([0.0, 0, 1, 1])],
    ids=["none", "one", "three", "huge", "separated"],
)
def test_hopeless_parts_are_silent(y, family):
    X = np.column_stack([np.ones(len(y)), np.arange(len(y)) * 1e300])
    with warnings.catch_warnings(), np.errstate(all="ignore"):
        warnings.simplefilter("error")
        found = fitted(PartNumbers(y, X, ()), ("Intercept", "x"), one("x"), family)
    assert found is None or np.isfinite(found)


def test_separated_odds_are_not_told():
    x = np.linspace(-1, 1, 40)
    X = np.column_stack([np.ones(40), x])
    assert fitted(PartNumbers((x > 0).astype(float), X, ()), ("Intercept", "x"), one("x"), "logistic") is None


def design(formula, family="ols", relation="label", **reference):
    return VoteDesign.of(formula, schema_of(relation), family, reference)


def values_of(table, made):
    schema = made.reading.schema
    ((values, _),) = BatchRows(source(table), schema, b"k").values(made.reading)
    return values


def test_names_and_numbers_are_those_of_fit():
    import dipsmith as ds

    table, formula = table_of(500, effect=-0.4), "y ~ s + x + I(x**2) + g"
    made = design(formula, s="M", g="b")
    expected = ds.fit(table, formula, reference={"s": "M", "g": "b"})
    assert set(made.names) == set(expected.names)
    numbers = made.numbers(values_of(table, made))
    for name in made.names:
        assert fitted(numbers, made.names, one(name)) == pytest.approx(expected[name].value, rel=1e-8)


def test_levels_come_from_the_schema_not_from_rows():
    table = table_of(20)
    few = table.filter(np.array([v == "a" for v in table["g"].to_pylist()]))
    made = design("y ~ g + s")
    assert made.names == ("Intercept", "g[T.b]", "g[T.c]", "s[T.M]")
    assert fitted(made.numbers(values_of(few, made)), made.names, one("g[T.b]")) is None


@pytest.mark.parametrize(
    ("formula", "family", "told"),
    [
        ("g ~ x", "ols", "3 levels"),
        ("y ~ poly(x)", "ols", "calls 'poly'"),
        ("y ~ z", "ols", "no column"),
        ("y ~ I(s == 'm')", "ols", "no level 'm'"),
        ("y ~ x", "probit", "expected ols or logistic"),
        ("y ~ 0", "ols", "0 coefficients"),
    ],
)
def test_what_cannot_be_fitted_is_refused_in_a_sentence(formula, family, told):
    with pytest.raises(UsageError, match=told):
        design(formula, family)


def test_text_has_no_number():
    with pytest.raises(UsageError, match="is text"):
        ValueReading(schema_of("label"), ("g",))
