"""Plain numbers made orthogonal: nothing of the algebra is lost, and sums of other tables are known without it."""

import numpy as np
import pyarrow as pa
import pytest

import dipsmith as ds
from dipsmith.analyses import sums
from dipsmith.analyses.design import design_of
from dipsmith.analyses.measure import Agenda, purchases_as_given
from dipsmith.analyses.orthogonal import OrthogonalColumns
from dipsmith.analyses.sums import Layout
from dipsmith.schema.analysis import PlannedAnalysis

FIELDS = [
    {"name": "a", "type": "string", "enum": ["p", "q", "r"], "other": "p", "role": "public"},
    {"name": "b", "type": "string", "enum": ["k", "l"], "other": "k", "role": "public"},
    {"name": "x", "type": "number", "minimum": 0, "maximum": 50, "bins": {"width": 1}, "role": "public"},
    {"name": "y", "type": "number", "minimum": 0, "maximum": 99, "bins": {"width": 1}, "role": "public"},
    {"name": "s", "type": "string", "enum": ["F", "M"], "other": "M", "role": "private"},
]
SCHEMA = ds.Schema.from_dict({"name": "t", "unit": "row", "neighbours": "label", "fields": FIELDS})
ONES = np.ones(400, np.int64)


def people() -> pa.Table:
    rng = np.random.default_rng(3)
    a, b = rng.integers(0, 3, 400), rng.integers(0, 2, 400)
    x = np.round(20 + 5 * a + rng.normal(0, 4, 400), 1)
    return pa.table({"a": np.array(list("pqr"))[a], "b": np.array(list("kl"))[b], "x": x, "y": np.round(x + b, 1)})


@pytest.mark.parametrize(
    "formula",
    [
        "y ~ s + a + x + I(x**2) + I(x**3)",
        # a number that another one says, before a third that both say nothing of
        "y ~ s + a + x + I(2*x + 1) + I(x**2)",
        "y ~ s + a*b + a:x + x",
    ],
)
def test_coefficients_come_back(formula):
    """Z made orthogonal and its way back give what the formula's own columns give, and Z′Z is that of Z."""
    layout = Layout.of(design_of(PlannedAnalysis(formula), SCHEMA, people(), ONES))
    rows = layout.public_columns
    dense = [np.zeros((400, b.width)) for b in rows]
    own = [np.zeros((400, b.width)) for b in rows]
    for Z, X, made, block in zip(dense, own, rows, layout.design.blocks, strict=True):
        at = np.zeros(400, np.int64) if made.at is None else np.asarray(made.at)
        inside = np.flatnonzero(at < made.width)
        Z[inside, at[inside]] = 1.0 if made.weight is None else made.weight[inside]
        X[inside, at[inside]] = 1.0 if block.weight is None else block.weight[inside]
    Z, X = np.hstack(dense), np.hstack(own)
    np.testing.assert_allclose(layout.gram.times(np.eye(Z.shape[1])), Z.T @ Z, atol=1e-6 * np.abs(Z.T @ Z).max())
    beta = np.random.default_rng(0).normal(size=Z.shape[1])
    np.testing.assert_allclose(X @ (layout.back @ beta), Z @ beta, atol=1e-7 * np.abs(Z).max())
    sizes = np.linalg.norm(Z, axis=0)
    plain = [i for b, at in zip(layout.design.blocks, layout.places, strict=True) if b.weight is not None for i in at]
    alone = [i for i in plain if not np.allclose(Z[:, i], X[:, i])]
    others = [i for i in range(Z.shape[1]) if i not in plain]
    angles = (Z.T @ Z / np.outer(sizes, sizes))[np.ix_(alone, [*others, *alone])]
    assert np.abs(angles - np.eye(len(alone), angles.shape[1], len(others))).max(initial=0) < 1e-8


def test_other_sums_are_known_without_the_algebra(monkeypatch):
    """What is told beside other analyses are sums of groups and numbers as they stand; nothing is made orthogonal for them."""
    planned = [PlannedAnalysis("y ~ s + a + x + a:x"), PlannedAnalysis("s ~ b + x | a", model="ols")]
    whole = {p.keys[0]: p for p in Agenda.of(planned, SCHEMA, people(), ONES).purchases}
    monkeypatch.setattr(OrthogonalColumns, "of", None)
    monkeypatch.setattr(sums.Layout, "whole_residual", None)
    given = purchases_as_given(planned, SCHEMA, people(), ONES)
    assert {p.keys[0] for p in given} < set(whole)
    assert {p.title for p in whole.values() if p.keys[0] not in {g.keys[0] for g in given}} == {
        "x × s",
        "residual of y ~ s + a + x + a:x × s",
    }
    assert {p.title for p in given if p.table.weight is not None} == {"a:x × s"}
