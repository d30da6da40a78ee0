"""Parts of a table: a unit lies in one, and neighbours differ in as few parts as the proof says, for every key."""

import hashlib
from dataclasses import replace

import numpy as np
import pyarrow as pa
import pytest
from confirm_tables import schema_of, table_of

from dipsmith.counting.count import BatchRows, HeldRows
from dipsmith.counting.parts import divide
from dipsmith.counting.values import ValueReading
from dipsmith.schema import Codes
from dipsmith.schema.rules import Rule
from dipsmith.sources import source

PARTS = 7


def parted(table, schema, key, parts=PARTS):
    """What each part holds, in the order in which it is summed."""
    reading = ValueReading(schema, ("y", "x"), ("g", "s"))
    rows = BatchRows(source(table), schema, b"k" * 32)
    return [
        tuple(
            zip(*(p.numbers[n].tolist() for n in ("y", "x")), *(p.levels[n].tolist() for n in ("g", "s")), strict=True)
        )
        for p in divide(rows, reading, key, parts)
    ]


def differing(one, other, schema, key):
    return sum(a != b for a, b in zip(parted(one, schema, key), parted(other, schema, key), strict=True))


def coarse(table):
    """The same with few distinct rows, so that many are copies of one another."""
    for name in ("y", "x"):
        at = table.column_names.index(name)
        table = table.set_column(at, name, pa.array(np.round(table.column(name).to_numpy() / 2) * 0.0))
    return table


@pytest.mark.parametrize("copies", [False, True], ids=["distinct", "copies"])
@pytest.mark.parametrize("unit", [None, "id"], ids=["rows", "units"])
@pytest.mark.parametrize(("relation", "most"), [("add-remove", 1), ("label", 1), ("replace", 2)])
def test_neighbours_differ_in_few_parts(relation, most, unit, copies):
    """Whichever unit changes, whatever the key: brute force over all rows, with rows that are copies of others."""
    schema = schema_of(relation, unit=unit, max_rows=2)
    rows = 40 if unit is None else 10
    table = table_of(rows, seed=3, units=None if unit is None else 7)
    table = coarse(table) if copies else table
    seen = set()
    for row in range(rows):
        key = hashlib.sha256(bytes([row])).digest()
        place = pa.array([i for i in range(rows) if i != row])
        if relation == "add-remove":
            mine = [row] if unit is None else [i for i in range(rows) if table["id"][i] == table["id"][row]]
            other = table.take(pa.array([i for i in range(rows) if i not in mine]))
        elif relation == "label":
            labels = table["s"].to_pylist()
            labels[row] = "M" if labels[row] == "F" else "F"
            other = table.set_column(table.column_names.index("s"), "s", pa.array(labels))
        else:
            if unit is not None and table["id"].to_pylist().count(table["id"][row].as_py()) > 1:
                continue  # here a unit of one row is replaced by another one
            fresh = {"y": [5.0], "x": [-3.0], "g": ["c"], "s": ["M"], "id": ["new"]}
            stranger = pa.table({name: fresh[name] for name in table.column_names})
            other = pa.concat_tables([table.take(place), stranger])
        found = differing(table, other, schema, key)
        assert found <= most
        seen.add(found)
    assert max(seen) == most


@pytest.mark.parametrize("held", [False, True], ids=["source", "codes"])
def test_a_label_that_a_rule_leaves_out_moves_no_other_row(held):
    """Copies in the public columns, of which a changed label makes one unlawful: nobody else gets another number."""
    schema = replace(schema_of("label"), rules=(Rule((("g", (0,)), ("s", (0,)))),))
    rows = 40
    labels = ["FM"[i % 2] for i in range(rows)]
    reading = ValueReading(schema, (), ("s",))

    def parts(labels):
        table = pa.table({"y": [0.0] * rows, "x": [0.0] * rows, "g": ["a", "b", "b", "b"] * 10, "s": labels})
        counted = BatchRows(source(table), schema, b"k" * 32)
        if held:
            counted = HeldRows(Codes.concatenate(list(counted._passing(schema.names, "held"))))
        return [p.levels["s"].tolist() for p in divide(counted, reading, b"key", PARTS)]

    for row in range(rows):
        other = [("M" if v == "F" else "F") if i == row else v for i, v in enumerate(labels)]
        assert sum(a != b for a, b in zip(parts(labels), parts(other), strict=True)) == 1


def test_all_rows_of_a_unit_lie_in_one_part():
    schema = schema_of("add-remove", unit="id", max_rows=50)
    table = table_of(200, units=30)
    where = {}
    ids = dict(zip(table["y"].to_pylist(), table["id"].to_pylist(), strict=True))
    for number, rows in enumerate(parted(table, schema, b"key")):
        for row in rows:
            assert where.setdefault(ids[row[0]], number) == number
    assert len(set(where.values())) > 3


def test_rows_beyond_max_rows_are_in_no_part():
    schema = schema_of("add-remove", unit="id", max_rows=2)
    table = table_of(200, units=30)
    assert sum(map(len, parted(table, schema, b"key"))) == 60


@pytest.mark.parametrize("relation", ["add-remove", "replace"])
def test_the_order_of_the_file_decides_nothing(relation):
    schema = schema_of(relation)
    table = coarse(table_of(60))
    turned = table.take(pa.array(np.random.default_rng(1).permutation(60)))
    assert parted(table, schema, b"key") == parted(turned, schema, b"key")


def test_copies_are_spread_over_the_parts():
    """300 equal rows in 7 parts: a part with none has probability 7·(6/7)³⁰⁰ < 1e-19."""
    row = table_of(1)
    assert all(parted(pa.concat_tables([row] * 300), schema_of("add-remove"), b"key"))


def test_another_key_makes_other_parts():
    table, schema = table_of(60), schema_of("label")
    assert parted(table, schema, b"one") != parted(table, schema, b"two")


def test_an_empty_table_has_empty_parts():
    assert parted(table_of(0), schema_of("label"), b"key") == [()] * PARTS
