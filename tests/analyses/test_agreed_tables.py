"""Noisy tables made to agree: generalised least squares over all of them at once."""

import numpy as np
import pytest

from dipsmith.analyses.agreed_tables import AgreedTables, NoisyMarginal, subsets
from dipsmith.estimation.answers import NoisyTable
from dipsmith.privacy.budget import PureDP
from dipsmith.privacy.measurement import Measurement
from dipsmith.schema import Attribute, Categories, Marginal, Rule, Schema, Unit

SIZES = {"a": 2, "b": 3, "c": 4}


def schema_of(rules=()):
    attributes = tuple(
        Attribute(n, "string", Categories.of([str(i) for i in range(s)], other="0")) for n, s in SIZES.items()
    )
    return Schema("t", attributes, Unit(), "replace", tuple(rules))


def noisy(names, variance, seed=0):
    rng = np.random.default_rng(seed)
    shape = tuple(SIZES[n] for n in names)
    return NoisyMarginal(names, rng.normal(50, 20, shape), np.full(shape, variance), True)


def least_squares(tables, total):
    """Counts of a × b × c that are closest to all tables, weighted by variance: the textbook, on the whole cube."""
    cube = np.arange(24).reshape(2, 3, 4)
    lines, goals, weights = [], [], []
    for t in tables:
        for index in np.ndindex(t.values.shape):
            at = tuple(index[t.attributes.index(n)] if n in t.attributes else slice(None) for n in SIZES)
            line = np.zeros(24)
            line[cube[at].ravel()] = 1
            lines.append(line)
            goals.append(t.values[index])
            weights.append(1 / np.sqrt(t.variance[index]))
    if total is not None:
        lines.append(np.ones(24))
        goals.append(total)
        weights.append(1e6)
    w = np.array(weights)
    found = np.linalg.lstsq(np.array(lines) * w[:, None], np.array(goals) * w, rcond=None)[0]
    return found.reshape(2, 3, 4)


@pytest.mark.parametrize("total", [None, 500.0])
def test_it_is_generalised_least_squares(total):
    sets = [("a", "b"), ("b", "c"), ("a", "c"), ("a",), ("b", "c")]
    tables = [noisy(s, v, i) for i, (s, v) in enumerate(zip(sets, (1.0, 4.0, 9.0, 2.0, 3.0), strict=True))]
    agreement = AgreedTables.of(tables, [("a", "b"), ("b", "c"), ("a", "c")], SIZES, total)
    parts = agreement.measured_sums()
    cube = least_squares(tables, total)
    for names, axis in ((("a", "b"), 2), (("b", "c"), 0), (("a", "c"), 1)):
        assert agreement.table(names, parts)[0] == pytest.approx(cube.sum(axis=axis), abs=1e-6)


def test_tables_agree_on_what_they_share():
    tables = [noisy(("a", "b"), 1.0, 1), noisy(("b", "c"), 2.0, 2)]
    agreement = AgreedTables.of(tables, [("a", "b"), ("b", "c")], SIZES, None)
    parts = agreement.measured_sums()
    one, other = agreement.table(("a", "b"), parts)[0], agreement.table(("b", "c"), parts)[0]
    assert one.sum(axis=0) == pytest.approx(other.sum(axis=1))
    assert agreement.table((), parts)[0] == pytest.approx(one.sum())


def test_columns_outside_are_added_up():
    whole = noisy(("a", "b", "c"), 1.0)
    agreement = AgreedTables.of([whole], [("a", "b")], SIZES, None)
    assert agreement.tables[0].attributes == ("a", "b")
    assert agreement.tables[0].variance == pytest.approx(np.full((2, 3), 4.0))
    assert agreement.table(("a", "b"), agreement.measured_sums())[0] == pytest.approx(whole.values.sum(axis=2))


def test_an_exact_table_decides_alone():
    exact, other = noisy(("a", "b"), 0.0, 1), noisy(("b",), 5.0, 2)
    agreement = AgreedTables.of([other, exact], [("a", "b")], SIZES, None)
    assert agreement.table(("a", "b"), agreement.measured_sums())[0] == pytest.approx(exact.values)
    assert np.abs(agreement.table(("a", "b"), agreement.redraw(np.random.default_rng(0), 5))).max() == 0


def test_noise_is_drawn_with_the_variance_that_least_squares_leaves():
    """Two tables of one column: variances 1 and 3 leave 3/4; 40,000 draws know it to 1 %, five of which are allowed."""
    tables = [noisy(("b",), 1.0, 1), noisy(("b",), 3.0, 2)]
    agreement = AgreedTables.of(tables, [("b",)], SIZES, None)
    draws = agreement.table(("b",), agreement.redraw(np.random.default_rng(0), 40_000))
    assert draws.var(axis=0) == pytest.approx(np.full(3, 0.75), rel=0.05)
    fixed = AgreedTables.of(tables, [("b",)], SIZES, 100.0)
    assert fixed.table(("b",), fixed.redraw(np.random.default_rng(0), 10)).sum(axis=1) == pytest.approx(np.zeros(10))


def test_a_measurement_and_a_table_of_a_model_say_the_same():
    schema = schema_of(rules=[Rule((("a", (0,)), ("b", (1,))))])
    marginal = Marginal.of(schema, ("a", "b"))
    values = np.array([5, 0, 3, 2, 4, 1])
    measurement = Measurement(marginal, values, 2.0, PureDP(1), "discrete Laplace")
    table = NoisyTable(marginal, values, 2.0, 15.0, 0.0, mechanism="discrete Laplace")
    for found in (NoisyMarginal.of(measurement), NoisyMarginal.of(table)):
        assert found.values.tolist() == [[5, 0, 3], [2, 4, 1]]
        assert found.variance.tolist() == [[2, 0, 2], [2, 2, 2]]
        assert found.laplace
    kept = Measurement(marginal, values, 2.0, PureDP(1), "discrete Laplace", kept=np.arange(6), threshold=0)
    assert NoisyMarginal.of(kept) is None


def test_subsets():
    assert subsets(("a", "b")) == [(), ("a",), ("b",), ("a", "b")]
