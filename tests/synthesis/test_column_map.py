"""Another file's columns under the schema's names."""

import pyarrow as pa
import pytest

from dipsmith.errors import SourceError, UsageError
from dipsmith.sources import source
from dipsmith.sources.fingerprint import fingerprint
from dipsmith.synthesis.column_map import map_columns, require_factors


def rows(found, *columns):
    found.check(columns)
    return pa.Table.from_batches(list(found.batches(columns))).to_pydict()


OTHER = pa.table({"basic pay": ["100", "x", None], "agency": ["A", "B", "06"], "age": [30, 40, 50]})


def test_a_column_is_renamed_as_it_stands_or_computed():
    found = map_columns(OTHER, {"pay": "`basic pay` * 1.5 + age", "unit": "agency", "raw": "basic pay"})
    assert rows(found, "pay", "unit", "age", "raw") == {
        "pay": [180.0, None, None],
        "unit": ["A", "B", "06"],
        "age": [30, 40, 50],
        "raw": ["100", "x", None],
    }
    assert found.columns == ("pay", "unit", "raw", "basic pay", "agency", "age")
    assert fingerprint(found) == fingerprint(source(OTHER))


def test_factors_by_group_come_from_a_public_table():
    ratios = pa.table({"agency": ["A", "06"], "ratio": ["2", "3"]})
    found = map_columns(OTHER, {"age": "age * ratio"}, ratios)
    assert rows(found, "age") == {"age": [60.0, None, 150.0]}
    with pytest.raises(SourceError, match=r"it has groups \(agency\) without a row in the table of factors") as refused:
        require_factors(found)
    assert "'B'" not in str(refused.value)
    require_factors(
        map_columns(OTHER, {"age": "age * ratio"}, pa.table({"agency": ["A", "B", "06"], "ratio": [1, None, 3]}))
    )
    twice = pa.table({"agency": ["A", "A"], "ratio": [1, 2]})
    with pytest.raises(SourceError, match="two rows have the same agency"):
        map_columns(OTHER, {"age": "age * ratio"}, twice)
    with pytest.raises(SourceError, match="a column of the file"):
        map_columns(OTHER, {"age": "age * ratio"}, pa.table({"office": ["A"], "ratio": [1]}))
    with pytest.raises(UsageError, match="goes with a column map"):
        map_columns(OTHER, None, ratios)


@pytest.mark.parametrize(
    ("meaning", "error", "said"),
    [
        ("wage * 2", SourceError, "'wage'"),
        ("age *", UsageError, "expected a column, or arithmetic"),
        ("age ~ 2", UsageError, "expected a column, or arithmetic"),
        ("__import__('os')", UsageError, "cannot be evaluated"),
        ("agency == 'A'", UsageError, "cannot be evaluated"),
        ("eval(age)", UsageError, "cannot be evaluated"),
    ],
)
def test_what_is_no_arithmetic_is_refused_before_a_row_is_read(meaning, error, said):
    with pytest.raises(error, match=said):
        map_columns(OTHER, {"pay": meaning})
