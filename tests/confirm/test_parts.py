"""Parts of a table: a unit lies in one, and neighbours differ in as few parts as the proof says, for every key."""

import hashlib
import itertools
from collections import defaultdict
from fractions import Fraction

import numpy as np
import pyarrow as pa
import pytest
from confirm_tables import schema_of, table_of

from dipsmith.counting.count import BatchRows
from dipsmith.counting.parts import divide, name_rows
from dipsmith.counting.values import ValueReading
from dipsmith.privacy.noise import DiscreteLaplace
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


@pytest.mark.slow
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


EPSILON = Fraction(1, 2)
LAW = DiscreteLaplace(1 / EPSILON)
POINTS = np.arange(-40, 45)


def law_of_a_poll(rows, relation, vote, parts):
    """The exact law of a noisy poll of few rows: every way in which a random function can give names their parts."""
    rows = sorted(rows)
    names = [tuple(name) for name in name_rows(np.array(rows, np.int64).reshape(-1, 2), relation).tolist()]
    distinct = list(dict.fromkeys(names))
    found = np.zeros(len(POINTS))
    for drawn in itertools.product(range(parts), repeat=len(distinct)):
        part = dict(zip(distinct, drawn, strict=True))
        held = [tuple(row for row, name in zip(rows, names, strict=True) if part[name] == at) for at in range(parts)]
        found += LAW.pmf(POINTS - sum(vote[some] for some in held))
    return found / parts ** len(distinct)


def any_vote(rng):
    """A vote by nothing but chance: whichever rows a part has, an answer of its own."""
    return defaultdict(lambda: int(rng.integers(2)))


@pytest.mark.slow
@pytest.mark.parametrize("rule", [False, True], ids=["free", "rule"])
def test_a_changed_label_costs_no_more_than_one_vote_in_law(rule):
    """All pairs of neighbours among four rows, three of them copies but for one of three labels; 25 votes, two of them made
    to notice rows that are together; a rule on the label that leaves rows out. The worst ratio is that of one vote."""
    rng = np.random.default_rng(2)
    kinds = [any_vote(rng) for _ in range(23)]
    kinds += [_Sized(1), _Sized(2)]
    worst = 0.0
    for vote in kinds:
        laws = {}
        for labels in itertools.product(range(3), repeat=4):
            table = [(int(place == 3), label) for place, label in enumerate(labels)]
            lawful = tuple(sorted(row for row in table if not (rule and row == (0, 2))))
            laws[labels] = law_of_a_poll(lawful, "label", vote, 2)
        for labels, place, label in itertools.product(laws, range(4), range(3)):
            other = (*labels[:place], label, *labels[place + 1 :])
            worst = max(worst, float(np.log(laws[labels] / laws[other]).max()))
    assert worst <= float(EPSILON) + 1e-9
    assert worst > 0.8 * float(EPSILON)


class _Sized(dict):
    """Yes of a part with so many rows."""

    def __init__(self, size):
        super().__init__()
        self.size = size

    def __missing__(self, rows):
        return int(len(rows) == self.size)


def test_every_row_has_a_name_of_its_own():
    """What the law rests on: no two rows share a part because they look alike."""
    content = np.sort(np.random.default_rng(0).integers(0, 3, (50, 1)), axis=0)
    for relation in ("add-remove", "label", "replace"):
        assert len(np.unique(name_rows(content, relation), axis=0)) == 50


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


@pytest.mark.parametrize("copies", [False, True], ids=["distinct", "copies"])
@pytest.mark.parametrize("unit", [None, "id"], ids=["rows", "units"])
@pytest.mark.parametrize("relation", ["add-remove", "label", "replace"])
def test_the_order_of_the_file_decides_nothing(relation, unit, copies):
    """Neither who is in a part nor in which order they are summed."""
    schema = schema_of(relation, unit=unit, max_rows=2)
    table = table_of(60, units=None if unit is None else 40)
    table = coarse(table) if copies else table
    turned = table.take(pa.array(np.random.default_rng(1).permutation(60)))
    assert parted(table, schema, b"key") == parted(turned, schema, b"key")


@pytest.mark.slow
@pytest.mark.parametrize("relation", ["add-remove", "label"])
def test_copies_are_spread_over_the_parts(relation):
    """300 equal rows in 7 parts: a part with none has probability 7·(6/7)³⁰⁰ < 1e-19."""
    row = table_of(1)
    assert all(parted(pa.concat_tables([row] * 300), schema_of(relation), b"key"))


def test_another_key_makes_other_parts():
    table, schema = table_of(60), schema_of("label")
    assert parted(table, schema, b"one") != parted(table, schema, b"two")


def test_an_empty_table_has_empty_parts():
    assert parted(table_of(0), schema_of("label"), b"key") == [()] * PARTS
