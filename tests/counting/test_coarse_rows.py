"""Rows seen with larger places: the same rows, however they are counted; one row moves one count of every table."""

from itertools import combinations

import numpy as np
import pytest

from dipsmith.counting.count import MemoryRows
from dipsmith.counting.pushed import PushedRows
from dipsmith.counting.tally import fuse, merged_keys
from dipsmith.schema import Codes, Marginal, Schema
from dipsmith.schema.places import PlaceTable

SCHEMA = Schema.from_dict(
    {
        "name": "p",
        "unit": "row",
        "neighbours": "replace",
        "fields": [
            {
                "name": "t",
                "type": "string",
                "enum": ["b2", "a1", "b1", "a2"],
                "hierarchy": {"s": 1, "t": 2},
                "other": "a1",
            },
            {"name": "x", "type": "string", "enum": ["u", "v"], "other": "u"},
            {"name": "y", "type": "string", "enum": ["p", "q", "r"], "other": "p"},
        ],
        "rules": [{"never": {"x": "u", "y": "r"}}],
    }
)


def people(rows=60, seed=0):
    random = np.random.default_rng(seed)
    return Codes.of(SCHEMA, {a.name: random.integers(0, a.size, rows) for a in SCHEMA.attributes}, rows)


class GroupCounts:
    """An engine: it groups rows and tells nothing else."""

    schema = SCHEMA

    def __init__(self, codes):
        self.codes = codes

    def count_groups(self, sets, fixed, view):
        assert not fixed
        rows = self.codes.take(self.codes.lawful()) if view == "lawful" else self.codes
        return [merged_keys(fuse(rows, names), np.ones(len(rows), dtype=np.int64)) for names in sets]


@pytest.mark.parametrize("held", [MemoryRows(people()), PushedRows(GroupCounts(people()))], ids=["batches", "engine"])
def test_larger_places_are_sums_of_places(held):
    coarse = held.with_larger_places(1)
    for names in (("t (s)",), ("t (s)", "x"), ("x", "t (s)", "y"), ("y",), ()):
        own = tuple("t" if n == "t (s)" else n for n in names)
        (fine,) = held.count([Marginal.of(SCHEMA, own)])
        fine = fine.reshape([SCHEMA[n].size for n in own])
        if "t" in own:
            axis = own.index("t")
            fine = np.stack([fine.take([0, 2], axis).sum(axis), fine.take([1, 3], axis).sum(axis)], axis)
        (found,) = coarse.count([Marginal.of(coarse.schema, names)])
        assert np.array_equal(found, fine.ravel())
    assert coarse.total() == held.total()
    inside = coarse.within("t (s)", 1)
    assert inside.total() == int(np.isin(people()["t"], [1, 3]).sum())
    assert inside.count([Marginal.of(coarse.schema, ("y",))])[0].sum() <= inside.total()


def test_one_row_moves_one_count_of_every_table_by_place():
    """Δ₁ = 1 under add-remove and 2 under replace, Δ₂² the same: by brute force over all rows."""
    random = np.random.default_rng(3)
    tables = [PlaceTable(SCHEMA, level, q) for level in range(3) for n in range(3) for q in combinations(("x", "y"), n)]
    most = 0
    for seed in range(6):
        rows = people(8, seed)
        for cell in range(SCHEMA.size()):
            one = np.unravel_index(cell, [a.size for a in SCHEMA.attributes])
            columns = {n: np.append(rows[n], v) for n, v in zip(SCHEMA.names, one, strict=True)}
            at = int(random.integers(0, 8))
            changed = {n: np.where(np.arange(8) == at, v, rows[n]) for n, v in zip(SCHEMA.names, one, strict=True)}
            more, other = Codes.of(SCHEMA, columns, 9), Codes.of(SCHEMA, changed, 8)
            for here, there, bound in (
                (MemoryRows(rows), MemoryRows(more), 1),
                (MemoryRows(rows), MemoryRows(other), 2),
            ):
                coarse = [Marginal.of(here.with_larger_places(1).schema, ("t (s)", "x"))]
                pairs = [*zip(here.count(tables), there.count(tables), strict=True)]
                pairs += zip(
                    here.with_larger_places(1).count(coarse), there.with_larger_places(1).count(coarse), strict=True
                )
                for a, b in pairs:
                    moved = int(np.abs(a - b).sum())
                    assert moved <= bound
                    assert int(((a - b) ** 2).sum()) <= bound
                    most = max(most, moved)
    assert most == 2
