"""Presence: who is there when, and who of those with the same past leaves."""

import numpy as np
import pytest

from dipsmith.methods.graph.presence import draw_presence, give_futures
from dipsmith.privacy.randomness import generator
from dipsmith.schema import Codes, Schema
from dipsmith.schema.steps import BROKEN, END, GAPS, WHOLE, band_width, entry_schema


def panel(periods):
    year = {"name": "year", "type": "integer", "minimum": 1, "maximum": periods}
    unit = {"column": "person", "max_rows": periods, "order": "year"}
    return Schema.from_dict({"name": "p", "unit": unit, "neighbours": "add-remove", "fields": [year]})


def entries(schema, begin, end, gaps):
    return Codes.of(entry_schema(schema), {"year (first)": np.array(begin), END: np.array(end), GAPS: np.array(gaps)})


def test_who_was_never_away_is_there_from_first_to_last():
    schema = panel(6)
    made = draw_presence(
        entries(schema, [0, 2, 5], [5, 3, 5], [WHOLE] * 3), schema, np.full(6, 0.9), np.zeros(6), generator(1)
    )
    assert made.astype(int).tolist() == [[1] * 6, [0, 0, 1, 1, 0, 0], [0, 0, 0, 0, 0, 1]]


@pytest.mark.parametrize("away", [0.0, 0.3])
def test_whoever_was_away_was_so_at_least_once_and_between(away):
    schema, n = panel(8), 4_000
    known = entries(schema, [0] * n, [7] * n, [BROKEN] * n)
    made = draw_presence(known, schema, np.full(8, away), np.full(8, 0.5), generator(2))
    assert made[:, 0].all()
    assert made[:, 7].all()
    assert (~made).any(axis=1).all()
    # 4,000 units: a share is within .05 of its expectation but for one time in 10⁹ (.05 is six standard errors).
    if away:
        assert ((~made[:, 2:7]).mean(axis=0) > away - 0.05).all()


def test_many_periods_are_told_in_bands():
    schema = panel(100)
    width = band_width(schema)
    assert width == 3
    known = entries(schema, [0, 99, 50], [0, 33, 20], [WHOLE, WHOLE, BROKEN])
    assert known.lawful().all()
    made = draw_presence(known, schema, np.full(100, 0.1), np.full(100, 0.5), generator(3))
    assert made.any(axis=1).all()
    assert 1 <= made[0].sum() <= width
    assert made[1].sum() == 1
    assert not made[2, :50].any()


def test_as_many_leave_as_before_and_the_eager_ones():
    """Units with the same past exchange what lies before them; nobody else does."""
    random = generator(4)
    n = 6_000
    present = np.ones((n, 3), dtype=bool)
    present[:600, 1:] = False  # of the first half a fifth leaves after the first period
    present[3_000:3_300, 1] = False  # of the others a tenth is away for a time
    past = np.repeat([0, 1], n // 2)
    holds, eager = np.arange(n), np.where(np.arange(n) % 2, 3.0, 0.0)
    give_futures(present, holds, np.arange(n), past, eager, 0, random)
    assert sorted(holds.tolist()) == list(range(n))
    assert (past[holds] == past).all()
    gone = ~present[holds, 1]
    assert gone[:3_000].sum() == 600
    assert gone[3_000:].sum() == 300
    assert present[holds, 2][3_000:].all()
    # Odds of e³ : 1; by chance alone half of the 900 would be eager ones.
    assert gone[1::2].sum() > 0.85 * 900
