"""Weighted totals: how far one unit moves them, what noise that asks for, and what the ledger is told."""

from fractions import Fraction
from itertools import product

import numpy as np
import pyarrow as pa
import pytest

from dipsmith.counting.count import BatchRows
from dipsmith.errors import SchemaError, UsageError
from dipsmith.privacy.budget import ZCDP, PureDP
from dipsmith.privacy.curator import Curator
from dipsmith.privacy.events import Rehearsal
from dipsmith.privacy.randomness import Stream
from dipsmith.privacy.value_question import WeightQuestion
from dipsmith.schema import Schema, WeightTotals
from dipsmith.sources import source

KEY = b"k" * 32


def schema(relation="add-remove", rows=1, maximum=5):
    unit = "row" if rows == 1 else {"column": "person", "max_rows": rows}
    return Schema.from_dict(
        {
            "name": "survey",
            "unit": unit,
            "neighbours": relation,
            "fields": [
                {"name": "region", "type": "string", "enum": ["n", "s"], "other": "n"},
                {"name": "age", "type": "integer", "minimum": 0, "maximum": 9, "bins": {"width": 5}},
                {"name": "w", "type": "number", "minimum": 0.5, "maximum": maximum, "role": "weight"},
            ],
            "rules": [{"never": {"region": "s", "age": {"below": 5}}}],
        }
    )


def totals(made, rows, columns):
    names = ("person", "region", "age", "w")
    table = pa.table({n: pa.array([r[i] for r in rows], t) for i, (n, t) in enumerate(zip(names, TYPES, strict=True))})
    question = WeightQuestion(WeightTotals(made, columns))
    return question.count(BatchRows(source(table), made, KEY), Stream.of(0))


TYPES = (pa.string(), pa.string(), pa.int64(), pa.float64())
CAREERS = [
    [(region, age, weight)]
    for region, age, weight in product(["n", "s", "?"], [2, 7, 40], [None, float("nan"), -3.0, 0.5, 4.9996, 5.0, 1e9])
]


@pytest.mark.parametrize("rows", [1, 2])
@pytest.mark.parametrize("relation", ["add-remove", "replace"])
def test_no_neighbour_moves_totals_farther(relation, rows):
    """All values of a unit's rows, odd ones too, beside others: the bound holds for every pair, and is reached."""
    made = schema(relation, rows)
    others = [("b", "n", 7, 2.0), ("c", "s", 7, 1.5), ("d", "n", 1, 3.25)]
    for columns in (("region",), ("region", "age")):
        heaviest = WeightTotals(made, columns).heaviest
        # A unit of two rows has two heavy ones, in one cell or apart, or more than count; or one odd row.
        careers = [
            *(CAREERS if rows == 1 else CAREERS[::3]),
            *([[("n", 7, 5.0)] * 2, [("s", 7, 5.0), ("n", 7, 5.0)], [("s", 7, 5.0)] * 3] if rows > 1 else []),
        ]
        found = [totals(made, [*others, *(("a", *row) for row in career)], columns) for career in careers]
        without = totals(made, others, columns)
        pairs = (
            [(f, without) for f in found]
            if relation == "add-remove"
            else [(f, g) for i, f in enumerate(found) for g in found[:i]]
        )
        moved = [np.abs(a - b) for a, b in pairs]
        twice = 1 if relation == "add-remove" else 2
        assert max(int(m.sum()) for m in moved) == twice * rows * heaviest
        assert max(int((m**2).sum()) for m in moved) == twice * (rows * heaviest) ** 2


@pytest.mark.parametrize(("relation", "rows"), [("add-remove", 1), ("replace", 1), ("add-remove", 3), ("replace", 3)])
def test_noise_is_what_the_price_asks_for(relation, rows):
    made = schema(relation, rows)
    question = WeightQuestion(WeightTotals(made, ("region",)))
    twice, heaviest = 1 if relation == "add-remove" else 2, round(5 / question.cells.step)
    law, event = question.price(relation, rows, PureDP("0.5"), "")
    assert law.scale == event.scale == Fraction(twice * rows * heaviest) / Fraction("0.5")
    assert event.weighted
    _, event = question.price(relation, rows, ZCDP("0.1"), "")
    assert event.sensitivity == twice * (rows * heaviest) ** 2
    event.require_gaussian()


def test_totals_are_exact_where_weights_are_whole_steps():
    made = schema(maximum=5)
    rows = [(str(i), "ns"[i % 2], 7, 0.5 + 0.001 * i) for i in range(1000)]
    cells = WeightTotals(made, ("region",))
    assert cells.step == 0.00001
    found = totals(made, rows, ("region",)) * cells.step
    assert found == pytest.approx([sum(r[3] for r in rows if r[1] == g) for g in "ns"], abs=1e-9)


def test_the_curator_charges_totals_and_remembers_them():
    made = schema()
    table = pa.table({"region": ["n", "s"], "age": [7, 7], "w": [1.0, 2.0]})
    curator = Curator(BatchRows(source(table), made, KEY), PureDP(1), stream=Stream.of(1), journal=Rehearsal())
    curator.ask(WeightQuestion(WeightTotals(made, ("region",))), PureDP(1))
    assert curator.remaining is None
    assert curator.answers[0].measurement.variance > 0


def test_totals_by_the_weight_itself_are_refused():
    with pytest.raises(UsageError, match="by other columns"):
        WeightTotals(schema(), ("w",))


REFUSED = {
    "label": ({"neighbours": "label"}, {}, "under label a weight is public"),
    "panel": ({"unit": {"column": "p", "max_rows": 2, "order": "age"}}, {}, "panel"),
    "negative": ({}, {"minimum": -1}, "minimum of 0 or more"),
    "missing": ({}, {"missing": True}, "no missing values"),
    "list": ({}, {"type": "integer", "enum": [1, 2], "minimum": None, "maximum": None, "other": 1}, "public bounds"),
}


@pytest.mark.parametrize("case", REFUSED)
def test_what_is_no_weight_is_refused(case):
    above, of_weight, words = REFUSED[case]
    data = schema().to_dict() | above
    fields = [dict(f) for f in data["fields"]]
    fields[-1] = {k: v for k, v in (fields[-1] | of_weight).items() if v is not None and k != "bins"}
    with pytest.raises(SchemaError, match=words):
        Schema.from_dict(data | {"fields": fields})


def test_two_weights_are_refused():
    data = schema().to_dict()
    with pytest.raises(SchemaError, match="both weights"):
        Schema.from_dict(data | {"fields": [*data["fields"], dict(data["fields"][-1]) | {"name": "v"}]})


def test_a_weight_is_cut_on_the_log_scale_and_read_back():
    made = schema(maximum=500)
    widths = np.diff(np.log(made["w"].domain.edges))
    assert made["w"].size == 12
    assert widths.max() / widths.min() < 1.05
    assert Schema.from_dict(made.to_dict()) == made
    assert made.weight == "w"
