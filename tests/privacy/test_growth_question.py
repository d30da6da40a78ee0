"""Growth within units: how far one unit moves its sums, what noise that asks for, and which steps count."""

from fractions import Fraction
from itertools import product

import numpy as np
import pyarrow as pa
import pytest

from dipsmith.counting.count import BatchRows
from dipsmith.errors import UnsupportedError, UsageError
from dipsmith.privacy.budget import ZCDP, PureDP
from dipsmith.privacy.curator import Curator
from dipsmith.privacy.randomness import Stream
from dipsmith.privacy.value_question import GrowthQuestion
from dipsmith.schema import Codes, Schema
from dipsmith.schema.growth import FINER, WHOLE, GrowthSpread, GrowthSums, growing_columns, level_scores
from dipsmith.sources import source

KEY = b"k" * 32
OTHERS = [("b", 2001, 12.0), ("b", 2002, 35.0), ("c", 2000, 3.0), ("c", 2003, 9.0), ("d", 2001, None)]


def panel(relation="add-remove", rows=3, **of_pay):
    bins = {"edges": [1, 10, 100, 1000, 10000], "law": "log"}
    return Schema.from_dict(
        {
            "name": "careers",
            "unit": {"column": "person", "max_rows": rows, "order": "year"},
            "neighbours": relation,
            "fields": [
                {"name": "year", "type": "integer", "minimum": 2000, "maximum": 2003},
                {"name": "pay", "type": "number", "bins": bins, "missing": True, **of_pay},
                {"name": "grade", "type": "string", "enum": ["a", "b"], "other": "a"},
            ],
            "rules": [{"never": {"year": 2000, "pay": {"below": 10}, "grade": "b"}}],
        }
    )


def sums(schema, rows, cells=None):
    person, year, pay = zip(*rows, strict=True)
    table = pa.table(
        {
            "person": pa.array(person),
            "year": pa.array(year),
            "pay": pa.array(pay, pa.float64()),
            "grade": pa.array(["a"] * len(rows)),
        }
    )
    steps = BatchRows(source(table), schema, KEY).steps()
    return GrowthQuestion(cells or GrowthSums(schema, "pay")).count(steps, Stream.of(0))


def lives():
    """Every life over four years with a low, a high or no pay, some without a number, some with more rows than count."""
    for pays in product([None, 1.0, 9999.0], repeat=4):
        life = [("a", 2000 + t, pay) for t, pay in enumerate(pays) if pay is not None]
        if life:
            yield life
    yield [("a", 2000 + t, float("nan")) for t in range(4)]
    yield [("a", 2000, 1.0), ("a", 2001, float("nan")), ("a", 2003, 9999.0)]
    yield [("a", 2000, 1.0)] * 3 + [("a", 2003, 9999.0)] * 3
    yield [("a", 2000 + t, 10.0**t) for t in range(4)] * 2


@pytest.mark.slow
@pytest.mark.parametrize("rows", [2, 4])
@pytest.mark.parametrize("relation", ["add-remove", "replace"])
def test_no_unit_moves_the_sums_farther(relation, rows):
    schema = panel(relation, rows)
    found = [sums(schema, [*OTHERS, *life]) for life in lives()]
    without = sums(schema, OTHERS)
    ends = [without] if relation == "add-remove" else [*found, without]
    moved = np.array([np.abs(f - end) for f in found for end in ends], dtype=np.int64)
    question = GrowthQuestion(GrowthSums(schema, "pay"))
    _, pure = question.price(relation, rows, PureDP(1), "")
    _, gaussian = question.price(relation, rows, ZCDP("0.1"), "")
    assert moved.sum(axis=1).max() <= pure.sensitivity
    assert (moved**2).sum(axis=1).max() <= gaussian.sensitivity
    # who goes through all levels is cut at half of them, and so each bound of a sum by itself is reached
    assert moved[:, 1].max() == (1 if relation == "add-remove" else 2) * FINER * WHOLE
    if rows == 4 and relation == "add-remove":
        assert moved.sum(axis=1).max() == pure.sensitivity


@pytest.mark.parametrize("about", [0.0, 2.3, -9.0])
@pytest.mark.parametrize("relation", ["add-remove", "replace"])
def test_no_unit_moves_the_spread_farther(relation, about):
    cells = GrowthSpread(panel(relation, 4), "pay", about)
    found = [sums(cells.schema, [*OTHERS, *life], cells)[0] for life in lives()]
    without = sums(cells.schema, OTHERS, cells)[0]
    ends = [without] if relation == "add-remove" else [*found, without]
    moved = max(abs(int(f) - int(end)) for f in found for end in ends)
    for budget, power in ((PureDP(1), 1), (ZCDP("0.1"), 2)):
        assert GrowthQuestion(cells).price(relation, 4, budget, "")[1].sensitivity == moved**power == WHOLE**power


def test_the_spread_is_that_of_units_about_the_slope():
    random = np.random.default_rng(8)
    rows = [(f"p{i}", 2000 + t, float(10 ** (1.2 + 1.6 * random.random()))) for i in range(80) for t in range(3)]
    schema = panel(rows=4)
    scores = level_scores(schema["pay"])
    x = np.array([scores[int(np.log10(pay))] for _, _, pay in rows]).reshape(80, 3)
    away = (x[:, 2] - x[:, 0]) - 0.2 * 2
    cells = GrowthSpread(schema, "pay", 0.2)
    assert np.abs(away).max() <= cells.products / 2
    assert sums(schema, rows, cells)[0] * cells.steps[0] == pytest.approx((away**2).sum(), rel=1e-3)


def test_a_unit_of_any_number_of_rows_costs_the_same():
    cells = GrowthSums(panel(rows=3), "pay")
    for rows in (1, 3, 24):
        law, event = GrowthQuestion(cells).price("add-remove", rows, PureDP("0.5"), "")
        assert law.scale == event.scale == Fraction(3 * WHOLE) / Fraction("0.5")
    assert GrowthQuestion(cells).price("replace", 3, PureDP(1), "")[1].sensitivity == 5 * WHOLE
    assert GrowthQuestion(cells).price("replace", 3, ZCDP(1), "")[1].sensitivity == 17 * WHOLE**2
    with pytest.raises(UnsupportedError, match="no proof under label"):
        GrowthQuestion(cells).price("label", 3, PureDP(1), "")


def test_the_slope_is_that_of_a_regression_with_an_effect_for_every_unit():
    random = np.random.default_rng(4)
    schema = panel(rows=4)
    rows = [
        (f"p{i}", 2000 + t, float(10 ** random.uniform(0.5, 3.5)))
        for i in range(60)
        for t in range(4)
        if random.random() < 0.7
    ]
    cells = GrowthSums(schema, "pay")
    scores = level_scores(schema["pay"])
    x = np.array([scores[min(int(np.log10(pay)), 3)] for _, _, pay in rows])
    person = np.array([int(p[1:]) for p, _, _ in rows])
    t = np.array([float(y) for _, y, _ in rows])
    dummies = (person[:, None] == np.unique(person)).astype(float)
    expected = np.linalg.lstsq(np.column_stack([t, dummies]), x, rcond=None)[0][0]
    slope, noise, squares = cells.slope(sums(schema, rows), 0.0)
    # some lives cross more than half of the levels and are cut: without them the two agree to the rounding of steps
    unit = np.unique(person, return_inverse=True)[1]
    kept = np.array([np.ptp(x[unit == u]) <= scores[1] - scores[0] for u in unit])
    some = [row for row, k in zip(rows, kept, strict=True) if k]
    again = np.linalg.lstsq(np.column_stack([t, dummies])[kept], x[kept], rcond=None)[0][0]
    assert cells.slope(sums(schema, some), 0.0)[0] == pytest.approx(again, abs=2e-4)
    assert abs(slope - expected) < 0.2
    assert noise == 0
    assert squares > 0


def test_noise_that_hides_the_periods_tells_no_slope():
    cells = GrowthSums(panel(), "pay")
    assert cells.slope(np.array([7, 100]), 1.0) is None
    assert cells.slope(np.array([800, 100]), 1.0) is not None


def test_growth_is_that_of_a_number_which_may_change():
    assert growing_columns(panel()) == ("pay",)
    assert growing_columns(panel(fixed=True)) == ()
    with pytest.raises(UsageError, match="'grade' is none"):
        GrowthSums(panel(), "grade")
    rows = BatchRows(source(pa.table({"person": [], "year": [], "pay": [], "grade": []})), panel(), KEY)
    question = GrowthQuestion(GrowthSums(panel(), "pay"))
    with pytest.raises(UnsupportedError, match="all steps of a panel"):
        question.count(rows, Stream.of(0))


def test_growth_of_some_steps_is_refused_before_the_charge():
    codes = Codes.of(panel(), {"year": np.arange(4), "pay": np.array([0, 3, 0, 3]), "grade": np.zeros(4, np.int64)})
    question = GrowthQuestion(GrowthSums(panel(), "pay"))
    budget, half = PureDP(1), PureDP("0.5")
    for some in (
        Curator.rehearse(codes, budget, seed=1).with_panel_steps(budget).with_fewer_steps(half, 1),
        Curator.rehearse(codes, budget, seed=1).with_panel_steps(budget).partition("grade", half)[0],
    ):
        with pytest.raises(UnsupportedError, match="not of some of them"):
            question.price(some.relation, some.max_rows, half, some.block)
        with pytest.raises(UnsupportedError, match="not of some of them"):
            some.ask(question, some.budget)
        assert some.answers == []


@pytest.mark.parametrize("most", [1e99, 1e306])
def test_numbers_whose_sums_overflow_have_no_growth(most):
    wide = panel(bins={"edges": [-most, -most / 2, most / 2, most]}, missing=False)
    assert growing_columns(wide) == (("pay",) if most == 1e99 else ())
    if most == 1e99:
        life = [("a", 2000 + t, most if t > 1 else -most) for t in range(4)]
        assert np.abs(sums(wide, life)).max() <= FINER * WHOLE
