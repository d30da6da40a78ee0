"""The steps of a panel as they are counted: a unit has no more of them than rows, whatever the file looks like."""

from itertools import combinations

import numpy as np
import pyarrow as pa
import pytest

from dipsmith.counting.count import BatchRows
from dipsmith.errors import UnsupportedError
from dipsmith.schema import Marginal, Schema
from dipsmith.sources import source

K = 3
KEY = b"k" * 32


def schema(max_rows=K):
    return Schema.from_dict(
        {
            "name": "careers",
            "unit": {"column": "person", "max_rows": max_rows, "order": "year"},
            "neighbours": "add-remove",
            "fields": [
                {"name": "year", "type": "integer", "minimum": 1, "maximum": 5},
                {"name": "sex", "type": "string", "enum": ["F", "M"], "other": "M", "fixed": True},
                {"name": "grade", "type": "integer", "enum": [0, 1, 2], "ordered": True},
            ],
            "rules": [{"never": {"sex": "F", "grade": 2}}],
        }
    )


def table(rows):
    names = ("person", "year", "sex", "grade")
    return pa.table({n: [row[i] for row in rows] for i, n in enumerate(names)})


def careers(random, people, ids="p"):
    """Rows of people with several rows in some years, rows that break the rule, values outside the list, and no id."""
    rows = []
    for person in range(people):
        name = None if person == 3 else f"{ids}{person}"
        rows += [
            (name, int(random.integers(1, 6)), str(random.choice(["F", "M"])), int(random.integers(0, 4)))
            for _ in range(int(random.integers(1, 7)))
        ]
    return rows


VIEWS = {
    "steps": lambda steps: steps,
    "entries": lambda steps: steps.steps(),
    "some": lambda steps: steps.with_fewer_steps(2),
    "presence": lambda steps: steps.with_fewer_steps(2, away=True),
}


def tables_of(rows, view="steps"):
    steps = VIEWS[view](BatchRows(source(table(rows)), schema(), KEY).steps())
    sets = [names for size in (0, 1, 2, 3) for names in combinations(steps.schema.names, size)]
    return steps.count([Marginal.of(steps.schema, names) for names in sets])


@pytest.mark.slow
@pytest.mark.parametrize(("view", "bound"), [("steps", K), ("entries", 1), ("some", 2), ("presence", 2)])
def test_whoever_joins_changes_every_table_by_at_most_max_rows_and_entries_by_one(view, bound):
    random = np.random.default_rng(5)
    most = 0
    for _ in range(25):
        rows = careers(random, 6)
        one = [("new", *row[1:]) for row in careers(random, 1)]
        for fewer, more in zip(tables_of(rows, view), tables_of([*one, *rows], view), strict=True):
            assert (more >= fewer).all()
            most = max(most, int((more - fewer).sum()))
    assert most == bound  # the bound is reached


def test_a_unit_has_one_step_in_a_period_however_many_rows_may_count():
    steps = BatchRows(source(table([("a", 1 + i % 5, "M", i % 3) for i in range(20)])), schema(12), KEY).steps()
    assert steps.schema.unit.max_rows == 5
    assert 4 <= len(steps.codes) <= 5  # twelve rows of twenty are held, four of each year: one may lack


def test_some_steps_know_the_period_before_and_none_is_drawn_more_often():
    # Everybody has years 1, 2 and 3, at grade 0, 1 and 1: of two drawn each third of the pairs is as likely as another.
    rows = [(f"p{i}", year, "M", int(year > 1)) for i in range(3_000) for year in (1, 2, 3)]
    some = BatchRows(source(table(rows)), schema(), KEY).steps().with_fewer_steps(2)
    assert some.schema.unit.max_rows == 2
    assert some.total() is None
    held = some.codes
    assert len(held) == 6_000
    # A share of 2/3 of 3,000 draws: sd 25.8; six of them are exceeded with a chance of 2e-9.
    assert np.abs(np.bincount(held["year"], minlength=5)[:3] - 2_000).max() < 155
    later = held["year"] > 0
    assert (held["(arrival)"][later] == 2).all()
    assert held["grade (before)"][held["year"] == 2].tolist() == [1] * int((held["year"] == 2).sum())


def test_an_entry_is_the_first_row_of_a_unit_with_its_last_period():
    rows = [("a", 4, "F", 1), ("a", 2, "F", 0), ("b", 1, "M", 2), ("c", 3, "M", 1), ("c", 4, "M", 0), ("d", 9, "F", 2)]
    entries = BatchRows(source(table(rows)), schema(), KEY).steps().steps()
    held = {name: entries.codes[name].tolist() for name in entries.schema.names}
    # a: from 2 to 4, away in 3; b: in 1 alone; c: in 3 and 4. d breaks the rule.
    expected = {
        "year (first)": [1, 0, 2],
        "sex (first)": [0, 1, 1],
        "grade (first)": [0, 2, 1],
        "(last period)": [3, 0, 3],
        "(gaps)": [1, 0, 0],
    }
    assert held == expected
    assert entries.codes.lawful().all()


def test_presence_is_where_a_unit_is_after_its_first_period_up_to_its_last():
    rows = [("a", 1, "F", 1), ("a", 3, "F", 0), ("a", 4, "F", 0), ("b", 2, "M", 2), ("c", 4, "M", 1), ("c", 5, "M", 0)]
    there = BatchRows(source(table(rows)), schema(), KEY).steps().with_fewer_steps(4, away=True)
    held = sorted(zip(there.codes["year (between)"].tolist(), there.codes["(presence)"].tolist(), strict=True))
    # a: away in 2, again in 3, here in 4; b is never between; c: here in 5.
    assert held == [(1, 0), (2, 1), (3, 2), (4, 2)]
    assert there.schema.unit.max_rows == 4
    assert there.total() is None


def test_which_periods_are_asked_is_drawn_evenly_and_by_the_unit_alone():
    # Everybody is there in 1 and 5, and away between: two of four periods are asked.
    rows = [(f"p{i}", year, "M", 1) for i in range(3_000) for year in (1, 5)]
    held = BatchRows(source(table(rows)), schema(), KEY).steps().with_fewer_steps(2, away=True).codes
    assert len(held) == 6_000
    # A share of 1/2 of 3,000 draws: sd 27.4; six of them are exceeded with a chance of 2e-9.
    assert np.abs(np.bincount(held["year (between)"], minlength=5)[1:] - 1_500).max() < 165
    assert held["(presence)"].tolist() == np.where(held["year (between)"] == 4, 1, 0).tolist()


@pytest.mark.parametrize("relation", ["add-remove", "replace"])
def test_how_many_units_there_are_is_not_told_for_free(relation):
    from dataclasses import replace

    from dipsmith.privacy.budget import PureDP
    from dipsmith.privacy.curator import Curator
    from dipsmith.privacy.events import Rehearsal
    from dipsmith.privacy.randomness import Stream

    rows = BatchRows(source(table(careers(np.random.default_rng(1), 5))), replace(schema(), neighbours=relation), KEY)
    curator = Curator(rows, PureDP(1), stream=Stream.of(1), journal=Rehearsal())
    entries = curator.with_panel_steps(PureDP(1)).with_panel_steps(PureDP(1))
    assert entries.max_rows == 1
    assert entries.rows is None


def test_the_order_of_the_file_does_not_matter():
    random = np.random.default_rng(6)
    rows = careers(random, 8)
    mixed = [rows[i] for i in random.permutation(len(rows))]
    for view in VIEWS:
        for first, second in zip(tables_of(rows, view), tables_of(mixed, view), strict=True):
            assert np.array_equal(first, second)


def test_a_unit_has_one_row_in_a_period():
    rows = [("a", 1, "F", 1), ("a", 1, "F", 0), ("a", 2, "F", 1)]
    steps = BatchRows(source(table(rows)), schema(), KEY).steps()
    years, grades = steps.count([Marginal.of(steps.schema, ("year",)), Marginal.of(steps.schema, ("grade",))])
    assert years.tolist() == [1, 1, 0, 0, 0]
    assert grades.tolist() == [1, 1, 0]  # the first in the order of codes


def test_no_row_is_read_before_a_table_is_counted():
    class Unread:
        def batches(self, *_):
            raise AssertionError("read")

        def describe(self):
            return "unread"

    BatchRows(Unread(), schema(), KEY).steps()


def test_rows_without_an_order_have_no_steps():
    from dataclasses import replace

    unordered = replace(schema(), unit=replace(schema().unit, order=None))
    with pytest.raises(UnsupportedError, match="no panel"):
        BatchRows(source(table([])), unordered, KEY).steps()


def test_rows_of_an_engine_are_read_once():
    """An engine that gives its rows in another order each time: every row keeps its unit."""
    from dipsmith.counting.pushed import rows_of

    class Restless:
        def __init__(self, rows):
            self.rows, self.random, self.columns = rows, np.random.default_rng(2), tuple(rows.column_names)

        def counter(self, *_):
            return None

        def check(self, required):
            assert set(required) <= set(self.columns)

        def batches(self, columns, progress=None):
            mixed = self.rows.take(pa.array(self.random.permutation(self.rows.num_rows)))
            yield from mixed.select(list(columns)).combine_chunks().to_batches()

        def describe(self):
            return "restless"

    rows = careers(np.random.default_rng(8), 40)
    steps = rows_of(Restless(table(rows)), schema(), key=KEY).steps()
    sets = [names for size in (0, 1, 2, 3) for names in combinations(steps.schema.names, size)]
    found = steps.count([Marginal.of(steps.schema, names) for names in sets])
    assert all(np.array_equal(first, second) for first, second in zip(found, tables_of(rows), strict=True))
