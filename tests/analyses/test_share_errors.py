"""Errors of shares: those of statsmodels that allow errors to vary, and no narrower than shares can be known."""

import numpy as np
import pyarrow as pa
import pytest

import dipsmith as ds
from dipsmith.analyses.pairs import estimate_from_tables
from dipsmith.analyses.share_errors import is_yes_or_no, vary_by
from dipsmith.privacy.budget import PureDP
from dipsmith.privacy.measurement import Measurement
from dipsmith.schema import Codes, Marginal

GROUPS = ("a", "b", "c")
FORMULA = 'I(v == "Y") ~ g'


def schema_of(neighbours):
    fields = [
        {"name": "g", "type": "string", "enum": list(GROUPS), "other": "a", "role": "public"},
        {"name": "v", "type": "string", "enum": ["N", "Y"], "other": "N", "role": "private"},
        {"name": "w", "type": "string", "enum": ["N", "Y"], "other": "N", "role": "private"},
    ]
    return ds.Schema.from_dict({"name": "t", "unit": "row", "neighbours": neighbours, "fields": fields})


def codes_of(n, seed):
    """Of a rare group half say yes, of the others few."""
    rng = np.random.default_rng(seed)
    g = rng.choice(3, n, p=[0.6, 0.38, 0.02])
    v = rng.random(n) < np.array([0.03, 0.05, 0.5])[g]
    return {"g": g, "v": v.astype(int), "w": rng.integers(0, 2, n)}


def rows_of(codes):
    return pa.table({"g": np.array(GROUPS)[codes["g"]], **{n: np.array(["N", "Y"])[codes[n]] for n in ("v", "w")}})


def white(codes):
    """The estimate with the errors of White (1980)."""
    smf = pytest.importorskip("statsmodels.formula.api")
    frame = rows_of(codes).to_pandas().assign(yes=codes["v"])
    return smf.ols("yes ~ g", frame).fit(cov_type="HC0")


def test_one_table_of_all_columns_gives_errors_that_vary():
    schema, codes = schema_of("replace"), codes_of(4000, 1)
    cells = Marginal.of(schema, ("g", "v"))
    counts = np.bincount(cells.index(Codes.of(schema, codes, 4000)), minlength=cells.size)
    table = Measurement(cells, counts, 0.0, PureDP(1), "discrete Laplace")
    (found,) = estimate_from_tables(FORMULA, schema, [table], rows=4000, draws=2)
    fitted = white(codes)
    for c in found.coefficients:
        assert c.estimate == pytest.approx(fitted.params[c.name], abs=1e-9)
        assert c.se == pytest.approx(fitted.bse[c.name], rel=1e-6)


def test_labels_beside_public_groups_have_errors_that_vary():
    codes = codes_of(4000, 2)
    release = ds.synthesize(
        rows_of(codes),
        schema_of("label"),
        ds.LogLinear(targets=["v", "w"]),
        budget=ds.PureDP(400),
        testing=True,
        noise_seed=1,
    )
    found, fitted = ds.fit(release, FORMULA, family="ols"), white(codes)
    assert found.direct
    for name in found.names:
        assert found[name].std_error == pytest.approx(fitted.bse[name], rel=0.02)


def test_a_fitted_share_of_nothing_still_varies():
    assert not is_yes_or_no(np.array([0.0, 1.0, 2.0]))
    assert vary_by(np.array([-0.2, 0.0, 1.3]), 0.2) == pytest.approx([0.04, 0.04, 0.04])
