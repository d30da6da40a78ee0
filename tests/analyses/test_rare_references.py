"""Levels that hardly any row has, and with which the others would be compared: what is told means what it says."""

import numpy as np
import pyarrow as pa
import pytest

import dipsmith as ds
from dipsmith.analyses.cross_products import CrossProducts
from dipsmith.analyses.rare_references import find_confounded, tables_compared
from dipsmith.errors import NotCarried
from dipsmith.regression.formula import RegressionFormula

LEVELS = ("a", "b", "c", "d")


def schema_of(neighbours="replace"):
    fields = [
        {"name": "g", "type": "string", "enum": list(LEVELS), "other": "a"},
        {"name": "s", "type": "boolean"},
        {"name": "y", "type": "integer", "minimum": 0, "maximum": 29, "bins": {"width": 1}},
    ]
    return ds.Schema.from_dict({"name": "t", "unit": "row", "neighbours": neighbours, "fields": fields})


def release_of(often, epsilon, seed, neighbours="replace", n=4000):
    rng = np.random.default_rng(seed)
    g, s = rng.choice(4, n, p=often), rng.integers(0, 2, n)
    y = np.clip(np.round(8 + 3 * g + s + rng.normal(0, 2, n)), 0, 29).astype(int)
    rows = pa.table({"g": np.array(LEVELS)[g], "s": s.astype(bool), "y": y})
    method = ds.Marginals(cliques=[["g", "s", "y"]])
    return ds.synthesize(rows, schema_of(neighbours), method, budget=ds.PureDP(epsilon), testing=True, noise_seed=seed)


@pytest.mark.parametrize("neighbours", ["replace", "add-remove"])
@pytest.mark.parametrize("epsilon", [2, 50])
@pytest.mark.parametrize("formula", ["y ~ g", "y ~ g + s", "y ~ s*g"])
def test_levels_are_not_compared_with_one_that_nobody_has(formula, epsilon, neighbours):
    """They were compared with the last level instead, under the first one's name: intervals never held."""
    for seed in range(3):
        release = release_of([0, 0.5, 0.3, 0.2], epsilon, seed, neighbours)
        with pytest.raises(NotCarried, match=r"the level with which g\[T.b\], g\[T.c\], g\[T.d\] would be compared"):
            ds.fit(release, formula)
        assert release.supports(formula).level == "not carried"
    found = ds.fit(release, "y ~ 0 + C(g) + s")
    assert found["C(g)[b]"].low < 11 < found["C(g)[b]"].high
    assert found["s"].low < 1 < found["s"].high


def test_a_rare_level_that_is_no_reference_leaves_the_others_told():
    found = ds.fit(release_of([0.5, 0.3, 0, 0.2], 4, 6), "y ~ s*g")
    assert np.isnan(found["g[T.c]"].low)
    assert found["g[T.b]"].low < 3 < found["g[T.b]"].high
    assert found["g[T.d]"].low < 9 < found["g[T.d]"].high


@pytest.mark.parametrize("term", ["I(2 * s)", "I(y >= 0)", 'I(g == "b")'])
def test_a_term_that_says_nothing_new_is_named(term):
    """A larger budget was asked for, which helps nobody."""
    with pytest.raises(NotCarried, match="the same in all rows, or follows from the others; leave it out"):
        ds.fit(release_of([0.4, 0.3, 0.2, 0.1], 4, 1), f"y ~ s + g + {term}")


def columns_of(formula):
    schema = schema_of()
    return CrossProducts.terms_alone(RegressionFormula.parse(formula, schema.names), schema).blocks[:-1], schema


def test_what_is_compared_with_a_rare_cell_has_no_meaning_of_its_own():
    blocks, schema = columns_of("y ~ C(s)*g")
    names = [n for b in blocks for n in b.names]
    *_, both = tables_compared(blocks, schema)
    assert both == ("g", "s")
    common = {t: np.ones(schema.size(t), bool) for t in tables_compared(blocks, schema)}
    assert find_confounded(blocks, schema, common) == ([], [])
    # Nobody has b and no s: what b is beside a then cannot be told apart from what s adds to it.
    cells = np.ones((4, 2), bool)
    cells[1, 0] = False
    lost, left_out = find_confounded(blocks, schema, common | {both: cells.ravel()})
    assert [names[i] for i in lost] == ["g[T.b]", next(n for n in names if "b" in n and ":" in n)]
    assert len(left_out) == 1
