"""Terms, arithmetic, coding and names against formulaic, on formulas and tables that Hypothesis makes up.

formulaic evaluates Python, so it is asked here about harmless names only; the package itself never asks it.
"""

import warnings

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st

from dipsmith.regression.formula import RegressionFormula
from dipsmith.regression.model_frame import levels_of, model_frame

formulaic = pytest.importorskip("formulaic")
pd = pytest.importorskip("pandas")

FUNCTIONS = {
    "abs": np.abs,
    "exp": np.exp,
    "log": np.log,
    "log10": np.log10,
    "log1p": np.log1p,
    "log2": np.log2,
    "sqrt": np.sqrt,
}

NUMBERS = ("a", "b", "größe")
LABELS = ("s", "t", "u")
COMPARED = ("x", "y", "none")


def theirs(response, terms, table, levels):
    """Response, columns and names by formulaic, for the rows in which all is known and finite."""
    frame, known = {}, np.ones(table.num_rows, dtype=bool)
    for name in RegressionFormula.parse(f"{response} ~ {terms}", table.column_names).columns:
        values = table[name].to_pylist()
        known &= np.array([v is not None for v in values])
        if name in levels:
            frame[name] = pd.Categorical([None if v is None else str(v) for v in values], categories=list(levels[name]))
        else:
            frame[name] = np.array([np.nan if v is None else v for v in values], dtype=float)
    frame = pd.DataFrame(frame)

    def matrix(text):
        with np.errstate(all="ignore"), warnings.catch_warnings():
            warnings.simplefilter("ignore")
            return formulaic.Formula(text).get_model_matrix(
                frame, context=FUNCTIONS, na_action="ignore", ensure_full_rank=True
            )

    y = np.asarray(matrix(f"0 + I(1 * ({response}))"), dtype=float)[:, 0]
    X = matrix(terms)
    names, X = tuple(map(str, X.columns)), np.asarray(X, dtype=float)
    kept = known & np.isfinite(y) & np.isfinite(X).all(axis=1)
    return y[kept], X[kept], names


def assert_same(response, terms, table, hats=False):
    text = f"{response} ~ {terms}"
    formula = RegressionFormula.parse(text.replace("**", "^") if hats else text, table.column_names)
    levels = levels_of(formula, [table], None, {})
    # Comparisons are with levels that a column may have; a schema lists some that no row has.
    levels = {name: tuple(dict.fromkeys([*own, *COMPARED])) for name, own in levels.items()}
    y, X, names = theirs(response, terms, table, levels)
    if not len(y):
        return
    ours = model_frame(formula, table, levels)
    assert ours.names == names
    np.testing.assert_array_equal(ours.y, y)
    np.testing.assert_array_equal(ours.X, X)


# --- formulas -----------------------------------------------------------------------------------------------

numbers = st.sampled_from(("2", "3", "0.5", "1e3", ".25", "10"))
plain = st.sampled_from(NUMBERS)


def larger(inner):
    # Every operation has a column: of numbers alone Python makes fractions without end and complex numbers.
    return st.one_of(
        st.tuples(inner, st.sampled_from(("+", "-", "*", "/", "%")), plain).map(" ".join),
        st.tuples(plain, st.sampled_from(("+", "-", "*", "/", "%")), inner).map(" ".join),
        st.tuples(plain, st.sampled_from(("*", "/", "%")), inner).map("".join).map("({})".format),
        st.tuples(plain, inner, st.sampled_from(("2", "3", "-1", "0.5"))).map(lambda p: f"({p[0]} - {p[1]})**{p[2]}"),
        st.tuples(plain, st.sampled_from(("2", "2**1", "-2"))).map("**".join),
        inner.map("-{}".format),
        inner.map("({})".format),
        st.tuples(st.sampled_from((*FUNCTIONS, "I")), inner).map(lambda p: f"{p[0]}({p[1]})"),
    )


arithmetic = st.recursive(st.one_of(plain, plain, numbers), larger, max_leaves=5)
signs = st.sampled_from(("<", "<=", ">", ">=", "==", "!="))
compared = st.one_of(
    st.tuples(plain, signs, arithmetic).map(" ".join),
    st.tuples(
        st.sampled_from(LABELS), st.sampled_from(("==", "!=")), st.sampled_from([f"'{label}'" for label in COMPARED])
    ).map(" ".join),
)
truths = st.one_of(compared, st.tuples(compared, compared).map(lambda p: f"({p[0]}) & ({p[1]})"))
# A number by itself is no factor of a row: formulaic takes I(2) for one.
called = st.one_of(
    st.tuples(st.sampled_from((*FUNCTIONS, "I")), plain, arithmetic).map(lambda p: f"{p[0]}({p[1]} + {p[2]})"),
    truths.map("I({})".format),
    st.sampled_from(LABELS).map("C({})".format),
)
factors = st.one_of(st.sampled_from((*NUMBERS, *LABELS)), st.sampled_from((*NUMBERS, *LABELS)), called)


def joined(inner):
    return st.one_of(
        st.tuples(inner, st.sampled_from((" + ", " - ", ":", "*", "/", " + ")), inner).map("".join),
        st.tuples(inner, inner, st.sampled_from(("2", "3"))).map(lambda p: f"({p[0]} + {p[1]})**{p[2]}"),
        st.tuples(inner, st.sampled_from((":", "*", "/")), inner, inner).map(
            lambda p: f"{p[0]}{p[1]}({p[2]} + {p[3]})"
        ),
        st.tuples(inner, inner).map(lambda p: f"({p[0]} - {p[1]})"),
    )


sums = st.recursive(factors, joined, max_leaves=4)
ends = st.sampled_from(("", "", "", " - 1", " + 0", " + 1", " - 0"))
starts = st.sampled_from(("", "", "", "0 + ", "1 + ", "-1 + ", "+ ", "- "))
right_sides = st.tuples(starts, sums, ends).map("".join)


@st.composite
def tables(draw):
    rows = draw(st.integers(1, 12))
    held = {}
    for name in NUMBERS:
        value = st.one_of(
            st.sampled_from((0.0, 1.0, -1.0, 2.0, None, float("nan"))),
            st.floats(-100, 100, allow_subnormal=False),
        )
        held[name] = pa.array(draw(st.lists(value, min_size=rows, max_size=rows)), pa.float64())
    for name in LABELS:
        value = st.sampled_from(("x", "y", "z w", "0", None))
        held[name] = pa.array(draw(st.lists(value, min_size=rows, max_size=rows)), pa.string())
    return pa.table(held)


TABLE = pa.table(
    {
        "a": [1.0, 2.0, -3.0, 0.5, 7.0, 2.0],
        "b": [2.0, -1.0, 0.25, 4.0, 4.0, 1.0],
        "größe": [10.0, 12.0, 9.0, 8.0, 7.0, 6.0],
        "s": ["x", "y", "x", "z", "y", "z"],
        "t": ["u", "v", "v", "u", "u", "v"],
        "u": ["1", "2", "10", "1", "2", "10"],
    }
)


@pytest.mark.slow
@settings(max_examples=300, deadline=None, suppress_health_check=[HealthCheck.too_slow, HealthCheck.filter_too_much])
@given(response=st.one_of(arithmetic, truths, plain), terms=right_sides, table=tables(), hats=st.booleans())
@example("a", "0 + s:t + b", TABLE, False)
@example("a", "s:t - 1", TABLE, True)
def test_designs_are_formulaics(response, terms, table, hats):
    assert_same(response, terms, table, hats)


@pytest.mark.parametrize(
    "terms",
    [
        "s*t*u",
        "s:t:u",
        "s/t/u",
        "s/(t + u)",
        "(s + t)/a",
        "(s + t + u)**2 - s:t",
        "(s + t + a + b)**3",
        "0 + s + t + s:t",
        "0 + a:s + s",
        "a:s",
        "a:s:t + s",
        "b:a + a:b + s:a",
        "s + C(s)",
        "C(u) + I(u)",
        "s*t - s",
        "s*t - t - 1",
        "a - 1 + 1",
        "0",
        "1",
        "-1",
        "a + + b",
        "a - - b",
        "(0 + s)",
        "(s - 1):a",
        "a:a + a**2",
        "I(a ** -2) + I(-a ** 2) + I((-a) ** 2) + I(a ** 2 ** 1)",
        "I(a - (b - 1)) + I((a - b) - 1) + I(a / (b / 2)) + I(-(a + b))",
        "I(+a) + I(--a) + I((a > 1) & (b < 2) & (s == 'x'))",
        "I(a > 1) + I((a > b) == (b > 1)) + log(I(a + 10))",
        "I(1e400 - a) + I(1e5 * a) + I(.5 * a) + I(2. * a)",
    ],
)
def test_terms_that_are_easily_got_wrong(terms):
    assert_same("größe", terms, TABLE)
