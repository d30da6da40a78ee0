"""What moves look like before their own counts are believed: sums over levels, and nothing that noise explains."""

import numpy as np
import pytest

from dipsmith.methods.graph.entropy import fit
from dipsmith.methods.graph.evidence import Evidence
from dipsmith.methods.graph.moves import _fit_falling, expected_moves
from dipsmith.schema import Schema
from dipsmith.schema.steps import before, step_schema

LEVELS = 20


def steps(missing=False, ordered=True):
    field = {"name": "pay", "type": "integer", "enum": list(range(LEVELS)), "ordered": ordered, "missing": missing}
    return step_schema(
        Schema.from_dict(
            {
                "name": "p",
                "unit": {"column": "person", "max_rows": 9, "order": "year"},
                "neighbours": "add-remove",
                "fields": [{"name": "year", "type": "integer", "minimum": 1, "maximum": 9}, field],
            }
        )
    )


def changes(size=LEVELS, rows=200_000.0):
    """Moves by at most three levels, of levels that are most frequent in the middle; nobody was absent."""
    now, was = np.indices((size, size))
    law = np.where(np.abs(now - was) <= 3, 0.4 ** np.abs(now - was - 0.3), 0.0)
    often = np.exp(-(((np.arange(size) - size / 2) / 4) ** 2))
    counts = law / law.sum(axis=0) * often / often.sum() * rows
    return np.hstack([counts, np.zeros((size, 1))])


def correlation(table):
    i = np.arange(len(table))
    table = table / table.sum()
    now, was = table.sum(axis=1), table.sum(axis=0)
    a, b = i - now @ i, i - was @ i
    return a @ table @ b / np.sqrt((a**2 @ now) * (b**2 @ was))


def fitted(schema, counts, noisy, sd, use):
    from dataclasses import replace

    names = ("pay", before("pay"))
    small = replace(schema, attributes=tuple(schema[n] for n in names), rules=())
    evidence = [Evidence(names, noisy, sd**2)]
    found = fit(small, evidence, counts.sum(), prior=expected_moves(evidence, schema) if use else ())
    belief = found.beliefs[0] if found.tree.cliques[0] == names else found.beliefs[0].T
    return belief[:, :-1] * counts.sum()


def test_without_noise_the_law_is_that_of_the_moves():
    counts = changes()
    ((names, times),) = expected_moves([Evidence(("pay", before("pay")), counts, 1e-9)], steps())
    assert names == ("pay", before("pay"))
    assert (times[:, -1] == 1).all()  # whoever was absent
    table = counts[:, :-1]
    law = times[:, :-1] * np.outer(table.sum(axis=1), table.sum(axis=0)) / table.sum()
    assert np.abs(law - table).sum() / table.sum() < 0.02


@pytest.mark.parametrize("seed", range(4))
def test_memory_survives_noise_that_drowns_single_cells(seed):
    """Noise of 100 on every cell: a fit that starts from independence halves the correlation, this one keeps it."""
    counts, sd = changes(), 100.0
    noisy = counts + np.random.default_rng(seed).laplace(0, sd / np.sqrt(2), counts.shape)
    true = correlation(counts[:, :-1])
    assert abs(correlation(fitted(steps(), counts, noisy, sd, True)) - true) < 0.04
    assert correlation(fitted(steps(), counts, noisy, sd, False)) < true - 0.1


def test_jumps_that_are_more_than_noise_are_kept():
    """A tenth who jump anywhere are no noise."""
    counts = changes()
    jumps = np.outer(counts.sum(axis=1), counts[:, :-1].sum(axis=0)) / counts.sum()
    counts[:, :-1] = 0.9 * counts[:, :-1] + 0.1 * jumps
    noisy = counts + np.random.default_rng(1).laplace(0, 40, counts.shape)
    made = fitted(steps(), counts, noisy, 40 * np.sqrt(2), True)
    now, was = np.indices(made.shape)
    far = np.abs(now - was) > 3
    assert made[far].sum() / made.sum() == pytest.approx(counts[:, :-1][far].sum() / counts.sum(), abs=0.02)


def test_missing_values_are_near_to_no_level():
    schema, counts = steps(missing=True), np.zeros((LEVELS + 1, LEVELS + 2))
    counts[:LEVELS, :LEVELS] = changes()[:, :-1]
    counts[LEVELS, :LEVELS] = counts[:LEVELS, LEVELS] = 100.0
    ((_, times),) = expected_moves([Evidence(("pay", before("pay")), counts, 1.0)], schema)
    # Into missing from the last level no more often than from the first, though their codes are neighbours.
    assert times[LEVELS, LEVELS - 1] < 2 * times[LEVELS, 0]
    assert times[LEVELS - 1, LEVELS] < 2 * times[0, LEVELS]


def test_without_an_order_people_stay_or_move_anywhere():
    often = np.arange(1.0, LEVELS + 1)
    often /= often.sum()
    counts = 1e5 * np.hstack([0.2 * np.outer(often, often) + 0.8 * np.diag(often), np.zeros((LEVELS, 1))])
    ((_, times),) = expected_moves([Evidence(("pay", before("pay")), counts, 1e-9)], steps(ordered=False))
    assert times[:, :-1] * np.outer(often, often) * 1e5 == pytest.approx(counts[:, :-1], rel=1e-3)


@pytest.mark.parametrize("counts", [np.zeros((LEVELS, LEVELS + 1)), np.full((LEVELS, LEVELS + 1), -50.0)])
@pytest.mark.parametrize("ordered", [True, False])
def test_a_table_of_noise_alone_is_no_reason_to_fail(counts, ordered):
    ((_, times),) = expected_moves([Evidence(("pay", before("pay")), counts, 100.0)], steps(ordered=ordered))
    assert np.isfinite(times).all()
    assert (times > 0).all()


def test_falling_numbers_are_the_nearest_that_never_rise():
    random = np.random.default_rng(2)
    from scipy.optimize import isotonic_regression

    for _ in range(30):
        values, weights = random.normal(size=12), random.uniform(0.1, 3, 12)
        expected = isotonic_regression(values, weights=weights, increasing=False).x
        assert _fit_falling(values, weights) == pytest.approx(expected)
