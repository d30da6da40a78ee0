"""Odds from noisy tables with rare groups: they are covered or not told."""

from collections.abc import Iterator

import numpy as np
import pyarrow as pa
import pytest

import dipsmith as ds
from dipsmith.analyses.agreed_tables import NoisyMarginal
from dipsmith.analyses.direct import batches
from dipsmith.analyses.odds import _pieces, odds_from_tables
from dipsmith.analyses.results import Result
from dipsmith.errors import NotCarried
from dipsmith.regression.formula import RegressionFormula

FIELDS = [
    {"name": "x", "type": "integer", "minimum": 0, "maximum": 3, "bins": {"width": 1}},
    {"name": "s", "type": "string", "enum": ["F", "M"], "other": "M"},
    {"name": "t", "type": "string", "enum": ["F", "M"], "other": "M"},
]
SCHEMA = ds.Schema.from_dict({"name": "p", "unit": "row", "neighbours": "replace", "fields": FIELDS})


def noisy_odds(
    formula: str, name: str, people: list[list[int]], sd: float, repeats: int
) -> Iterator[tuple[Result, dict[str, float]]]:
    """Odds of s from tables of so many people by one more column, and what they are without chance and noise."""
    schema, cells = SCHEMA.project([name, "s"]), np.array(people, dtype=float)
    parsed, rng = RegressionFormula.parse(formula, schema.names), np.random.default_rng(8)

    def odds(counts: np.ndarray, variance: float, rows: float, seed: int) -> Result | None:
        values = counts if schema.names[0] == name else counts.T  # columns stand in the schema's order
        table = NoisyMarginal(schema.names, values, np.full(values.shape, variance), False)
        return odds_from_tables(parsed, schema, [table], rows=round(rows), draws=200, seed=seed)

    exact = odds(cells, 1e-9, cells.sum(), 0)
    assert exact is not None
    truth = {c.name: c.estimate for c in exact.coefficients if c.estimate is not None}
    for i in range(repeats):
        sampled = rng.poisson(cells).astype(float)
        found = odds(sampled + np.rint(sd * rng.normal(size=cells.shape)), sd**2, sampled.sum(), i)
        if found is not None:
            yield found, truth


def test_a_coefficient_without_an_end_does_not_narrow_the_others() -> None:
    """90 rows have x > 2 and the rarer label, with noise of 60; 250 tables. They held .67 where another coefficient had no end."""
    hits = told = 0
    for found, truth in noisy_odds("s ~ I(x > 2)", "x", [[1100, 250], [900, 180], [200, 70], [400, 90]], 60.0, 250):
        base = found["Intercept"]
        if base.estimate is not None and base.low is not None and base.high is not None:
            told += 1
            hits += base.low <= truth["Intercept"] <= base.high
    # 250 repeats, told in nearly all: .95 − 5 · .0138 (3e-7)
    assert told > 200
    assert hits / told > 0.881


def test_noise_does_not_choose_which_rare_groups_are_told() -> None:
    """22 rows of a group have the rarer label, with noise of 40: 1 of 20 was told, .29 of these wrong."""
    each = noisy_odds("s ~ t", "t", [[8000, 1500], [120, 22]], 40.0, 200)
    assert not any(found["t[T.M]"].estimate is not None for found, _ in each)


def test_odds_that_noise_hides_are_not_taken_from_rows_instead() -> None:
    """A rare reference level with hardly a response: the table has no solution, and rows drawn from a model tell other odds."""
    rng = np.random.default_rng(4)
    group = rng.choice(4, 8000, p=[0.004, 0.396, 0.4, 0.2])
    paid = rng.random(8000) < np.array([0.01, 0.15, 0.3, 0.5])[group]
    fields = [
        {"name": "g", "type": "integer", "minimum": 1, "maximum": 4},
        {"name": "b", "type": "string", "enum": ["n", "y"], "other": "n"},
        {"name": "h", "type": "integer", "minimum": 0, "maximum": 39},
    ]
    schema = ds.Schema.from_dict({"name": "p", "unit": "row", "neighbours": "add-remove", "fields": fields})
    table = pa.table({"g": group + 1, "b": np.where(paid, "y", "n"), "h": rng.integers(0, 40, 8000)})
    release = ds.synthesize(table, schema, ds.Flat(), budget=ds.PureDP(1), testing=True, noise_seed=2)
    for family in ("auto", "firth"):
        with pytest.raises(NotCarried, match="as large as what they count"):
            ds.fit(release, "b ~ C(g)", family=family, replicates=10)
        assert release.supports("b ~ C(g)", family=family).level == "not carried"
    assert ds.fit(release, "b ~ I(g > 2)").direct


def test_an_intercept_far_from_all_rows_does_not_refuse() -> None:
    """Beside a number of 990 to 993 the intercept is 990 units away: as wide as can be, and nobody asked for it."""
    far = {"name": "x", "type": "integer", "minimum": 990, "maximum": 993, "bins": {"width": 1}}
    schema = ds.Schema.from_dict({"name": "p", "unit": "row", "neighbours": "replace", "fields": [far, FIELDS[1]]})
    counts = np.array([[900.0, 150.0], [900.0, 250.0], [900.0, 400.0], [900.0, 620.0]])
    table = NoisyMarginal(("x", "s"), counts, np.full(counts.shape, 400.0), False)
    found = odds_from_tables(RegressionFormula.parse("s ~ x", schema.names), schema, [table], rows=5020, draws=200)
    assert found is not None
    assert found["Intercept"].estimate is not None
    assert found["x"].estimate is not None


def test_draws_of_a_large_table_are_handled_in_pieces_and_end_early_where_nothing_is_told() -> None:
    """Memory is that of a few draws; where the first few tell that noise hides every slope, no more are made."""
    assert list(_pieces(50, 1_000)) == list(batches(50, 1_000))
    assert list(_pieces(50, 10**6)) == [20, 20, 10]
    fields = [{"name": n, "type": "integer", "minimum": 0, "maximum": 249, "bins": {"width": 1}} for n in ("x", "z")]
    schema = ds.Schema.from_dict(
        {"name": "p", "unit": "row", "neighbours": "replace", "fields": [*fields, {**FIELDS[1]}]}
    )
    values = np.random.default_rng(5).poisson(40_000 / (250 * 250 * 2), (250, 250, 2)).astype(float)
    parsed = RegressionFormula.parse("s ~ x + z", schema.names)
    for sd, told in ((0.2, True), (60.0, False)):
        noise = np.rint(sd * np.random.default_rng(6).normal(size=values.shape))
        table = NoisyMarginal(schema.names, values + noise, np.full(values.shape, sd**2), False)
        found = odds_from_tables(parsed, schema, [table], rows=round(values.sum()), draws=40)
        assert found is not None
        assert (found["x"].estimate is not None) is told
        assert (found.refusal is None) is told
    assert found.refusal is not None
    assert "noise of the tables" in found.refusal.reason
