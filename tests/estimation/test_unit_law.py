"""The law of a label that a unit's rows share keeps the tables of its rows."""

import numpy as np
import pytest

from dipsmith.estimation.unit_law import draw_labels, unit_law


@pytest.fixture
def career():
    """300 units of one to five rows; the law of a row goes by a column that changes in time and one that does not."""
    random = np.random.default_rng(1)
    many = random.integers(1, 6, 300)
    starts = np.cumsum(many) - many
    owner = np.repeat(np.arange(300), many)
    stays, year = random.integers(0, 4, 300)[owner], np.arange(len(owner)) - starts[owner]
    changes = random.integers(0, 3, len(owner))
    z = np.column_stack([0.5 * stays, 0.8 * changes, 0.2 * year])
    p = np.exp(z) / np.exp(z).sum(axis=1, keepdims=True)
    return p, starts, owner, [year * 4 + stays, year * 3 + changes]


def sums(cell, p):
    return np.array([np.bincount(cell, weights=column) for column in p.T])


def test_tables_of_rows_are_kept(career):
    p, starts, owner, cells = career
    law = unit_law(p, starts, cells)
    assert np.allclose(law.sum(axis=1), 1)
    plain = unit_law(p, starts, [])
    for cell in cells:
        before, after = (np.abs(sums(cell, q[owner]) - sums(cell, p)).sum() / len(p) for q in (plain, law))
        assert after < 0.04
    assert before > 4 * after  # the column that changes loses its part where rows are only averaged


def test_barred_labels_are_never_drawn_unless_all_are(career):
    p, starts, owner, cells = career
    barred = np.zeros(p.shape, dtype=bool)
    barred[::7, 0] = True
    barred[starts[3]] = True
    law = unit_law(p, starts, cells, barred)
    never = np.unique(owner[::7])
    assert (law[np.setdiff1d(never, [3]), 0] == 0).all()
    assert np.isfinite(law).all()
    drawn = draw_labels(law, np.full(len(law), 1 - 1e-16))
    assert (law[np.arange(len(law)), drawn] > 0).all()


def test_no_rows_and_single_rows():
    assert unit_law(np.zeros((0, 2)), np.zeros(0, np.int64), []).shape == (0, 2)
    p = np.array([[0.25, 0.75], [1.0, 0.0]])
    assert np.allclose(unit_law(p, np.array([0, 1]), []), p)
