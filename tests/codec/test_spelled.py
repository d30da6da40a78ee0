"""Cells that are not written plainly, read as the schema declares: against Python's own arithmetic, value by value."""

from __future__ import annotations

import datetime as dt
import re
from decimal import Decimal
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import dipsmith as ds
from dipsmith.codec.encode import Encoder
from dipsmith.codec.parse import days, microseconds, numbers
from dipsmith.codec.spelled_forms import FORMS, choose_spelling, find_forms
from dipsmith.counting.pushed import rows_of
from dipsmith.errors import SchemaError, SourceError
from dipsmith.schema import Schema
from dipsmith.schema.spelling import Spelling
from dipsmith.sources import source

MARKS = [(".", ""), (".", ","), (",", ""), (",", "."), (",", " "), (".", "'"), (".", "_")]


def read_one(text: str, spelling: Spelling) -> float | None:
    """The same rule once more, in Python: split at the marks, count the digits of groups."""
    text = text.strip(" ")
    sign = ""
    if not spelling.bare:
        lead = re.match(
            r"^([+-]?) ?((?:[^\W\d_]+\.[ \u00a0]+|(?:[^\W\d_]+[$€£]?|[$€£][^\W\d_]*)[ \u00a0]*))?([+-]?)(?=[0-9.,])",
            text,
        )
        if lead is None or len(lead[1] + lead[3]) > 1:
            return None
        sign, text = lead[1] + lead[3], text[lead.end() :]
        tail = re.search(r"(?<=[0-9.,])([ \u00a0]*[$€£%]|[ \u00a0]+[^\W\d_]+\.?)$", text)
        text = text if tail is None else text[: tail.start()]
    elif text[:1] in ("+", "-"):
        sign, text = text[0], text[1:]
    whole, point, rest = text.partition(spelling.decimal)
    if spelling.group and spelling.group in whole:
        first, *groups = whole.split(spelling.group)
        sizes = [len(g) for g in groups]
        if not 1 <= len(first) <= 3 or sizes[-1] != 3 or any(s not in (2, 3) for s in sizes):
            return None
        whole = "".join([first, *groups])
    if not (whole + rest) or not re.fullmatch("[0-9]*", whole + rest, re.ASCII):
        return None
    return float(Decimal(f"{sign}{whole or 0}{'.' if point else ''}{rest}"))


@settings(max_examples=60, deadline=None)
@given(
    marks=st.sampled_from(MARKS),
    bare=st.booleans(),
    texts=st.lists(st.text(alphabet="0123456789.,'_ +-$€%kEURm(", max_size=12), min_size=1, max_size=40),
)
def test_numbers_are_those_of_a_plain_reader(marks: tuple[str, str], bare: bool, texts: list[str]) -> None:
    spelling = Spelling(*marks, bare)
    texts = [t for t in texts if not re.search("[0-9.,][eE]", t)]  # exponents are tested by themselves
    values, known = numbers(pa.array(texts, pa.string()), spelling)
    for i, text in enumerate(texts):
        wanted = read_one(text, spelling)
        assert (known is None or bool(known[i])) == (wanted is not None), (text, spelling)
        assert wanted is None or values[i] == wanted, (text, spelling)


@pytest.mark.parametrize("marks", MARKS)
def test_amounts_come_back_exactly(marks: tuple[str, str]) -> None:
    decimal, group = marks
    amounts = np.round(np.random.default_rng(1).normal(0, 1e5, 2000), 2)
    swap = str.maketrans({",": group or None, ".": decimal})
    cells = pa.array([f"{v:,.2f}".translate(swap) + " €" for v in amounts])
    values, known = numbers(cells, Spelling(decimal, group, bare=False))
    assert known is None
    assert values.tolist() == amounts.tolist()
    for kind in (pa.large_string(), pa.binary(), pa.large_binary(), pa.string_view()):
        again, _ = numbers(cells.cast(kind), Spelling(decimal, group, bare=False))
        assert again.tolist() == amounts.tolist()
    for same in (pa.array(amounts), pa.array(amounts).cast(pa.decimal128(20, 2))):
        assert numbers(same, Spelling(decimal, group, bare=False))[0].tolist() == amounts.tolist()


@pytest.mark.parametrize(
    ("spelling", "text", "wanted"),
    [
        (Spelling(".", ",", bare=False), "US$ 1,00,000", 100_000.0),
        (Spelling(".", ",", bare=False), "Rs. 5", 5.0),
        (Spelling(".", ",", bare=False), "1,234.5 kr.", 1234.5),
        (Spelling(".", ",", bare=False), "$.5", 0.5),
        (Spelling(".", ",", bare=False), "-$1,234.5", -1234.5),
        (Spelling(".", ",", bare=False), "$-5", -5.0),
        (Spelling(".", ",", bare=False), "-$-5", None),
        (Spelling(".", ",", bare=False), "(5)", None),
        (Spelling(".", ",", bare=False), "\u22125", None),  # a minus of typesetters is no sign that might be dropped
        (Spelling(".", ",", bare=False), "5k", None),
        (Spelling(".", ","), "22,5", None),
        (Spelling(",", "."), "1.234", 1234.0),
        (Spelling(",", "."), "22842.69", None),
        (Spelling(",", " "), "1\u202f234,5", 1234.5),
        (Spelling(".", "'"), "1’234", 1234.0),
        (Spelling(","), "1,5E+03", 1500.0),
        (Spelling(bare=False), "12 %", 12.0),
        (Spelling(bare=False), "%", None),
    ],
)
def test_what_is_read_and_what_is_not(spelling: Spelling, text: str, wanted: float | None) -> None:
    values, known = numbers(pa.array([text]), spelling)
    assert (values[0] if known is None or known[0] else None) == wanted


@pytest.mark.parametrize("form", ["%d/%m/%Y", "%m/%d/%Y", "%d.%m.%y", "%Y%m%d", "%d%b%Y", "%d-%b-%y"])
def test_dates_are_those_of_strptime(form: str) -> None:
    rng = np.random.default_rng(2)
    dates = [dt.date(1970, 1, 1) + dt.timedelta(days=int(d)) for d in rng.integers(0, 20_000, 500)]
    values, known = days(pa.array([d.strftime(form) for d in dates]), Spelling(format=form))
    assert known is not None
    assert known.all()
    assert values.tolist() == [(d - dt.date(1970, 1, 1)).days for d in dates]
    large = pa.array([d.strftime(form) for d in dates], pa.large_string())
    assert days(large, Spelling(format=form))[0].tolist() == values.tolist()
    assert days(pa.array(dates), Spelling(format=form))[0].tolist() == values.tolist()
    wrong = pa.array(["", "x", "31/02/2020", "2020-01-01", "99/99/9999", "00/00/0000", "3113", None])
    assert not np.any(days(wrong, Spelling(format=form))[1])


def test_moments_and_whole_numbers_have_formats_too() -> None:
    told = pa.array(["31/12/1970 13:45", "31/12/1970 24:00"])
    values, known = microseconds(told, -(2**62), 2**62, Spelling(format="%d/%m/%Y %H:%M"))
    assert known is not None
    assert known.tolist() == [True, False]
    assert values[0] == (364 * 86_400 + 13 * 3600 + 45 * 60) * 1_000_000
    values, known = days(pa.array([19_701_231, 7, None]), Spelling(format="%Y%m%d"))
    assert known is not None
    assert (known.tolist(), values[0]) == ([True, False, False], 364)


def odd_schema(neighbours: str = "replace", role: str = "private") -> Schema:
    money = {"name": "pay", "type": "number", "minimum": 0, "maximum": 1000, "bins": {"count": 10}, "precision": 0.01}
    money |= {"groupChar": ",", "bareNumber": False, "missing": True, "role": role}
    born = {"name": "born", "type": "date", "minimum": "1950-01-01", "maximum": "2009-12-31", "bins": {"width": "year"}}
    born |= {"format": "%d/%m/%Y", "role": role}
    sex = {"name": "sex", "type": "string", "enum": ["F", "M"], "other": "M", "role": "private"}
    return Schema.from_dict({"name": "odd", "unit": "row", "neighbours": neighbours, "fields": [money, born, sex]})


def odd_rows(n: int = 400, *, readable: bool = True) -> pa.Table:
    rng = np.random.default_rng(4)
    born = [(dt.date(1950, 1, 1) + dt.timedelta(days=int(d))).strftime("%d/%m/%Y") for d in rng.integers(0, 21_000, n)]
    pay = [f"${v:,.2f}" for v in rng.uniform(0, 1000, n)]
    return pa.table({"pay": [*pay[1:], "$5" if readable else "five"], "born": born, "sex": rng.choice(["F", "M"], n)})


@settings(max_examples=40, deadline=None)
@given(st.lists(st.text(alphabet="0123456789.,/$€ xFM\u00e9\u00a0", max_size=12), min_size=1, max_size=20))
def test_spelled_cells_are_read_one_by_one(texts: list[str]) -> None:
    encoder = Encoder(odd_schema())
    batch = pa.record_batch({"pay": texts, "born": texts, "sex": texts})
    together, keep = encoder.encode(batch)
    assert keep.all()
    for i in range(len(texts)):
        alone, _ = encoder.encode(batch.slice(i, 1))
        assert {n: int(together[n][i]) for n in together.names} == {n: int(alone[n][0]) for n in alone.names}


def test_a_schema_with_spellings_reads_back_and_says_so() -> None:
    schema = odd_schema()
    assert Schema.from_dict(schema.to_dict()) == schema
    plain = [{k: v for k, v in f.items() if k not in ("groupChar", "bareNumber", "format")} for f in schema.to_dict()["fields"]]  # type: ignore[attr-defined]  # fmt: skip
    assert Schema.from_dict({**schema.to_dict(), "fields": plain}).digest != schema.digest
    assert "written such as 1,234.5" in str(schema)
    assert "written as %d/%m/%Y" in str(schema)


@pytest.mark.parametrize(
    ("keys", "sentence"),
    [
        ({"type": "number", "minimum": 0, "maximum": 9, "decimalChar": ";"}, "expected a point or a comma"),
        ({"type": "number", "minimum": 0, "maximum": 9, "groupChar": "."}, "nobody could tell them apart"),
        ({"type": "number", "minimum": 0, "maximum": 9, "format": "%d"}, "goes with dates"),
        ({"type": "date", "minimum": "2000-01-01", "maximum": "2000-12-31", "groupChar": ","}, "goes with numbers"),
        ({"type": "date", "minimum": "2000-01-01", "maximum": "2000-12-31", "format": "%d/%Y"}, "one year, one month"),
        (
            {"type": "date", "minimum": "2000-01-01", "maximum": "2000-12-31", "format": "%d.%B.%Y"},
            "not one that is read",
        ),
        ({"type": "date", "minimum": "2000-01-01", "maximum": "2000-12-31", "format": "%d.%m.%Y %H"}, "type: datetime"),
        ({"type": "string", "enum": ["a"], "missing": True, "bareNumber": False}, "does not go with enum"),
    ],
)
def test_spellings_that_mean_nothing_are_refused(keys: dict[str, object], sentence: str) -> None:
    told = {"name": "t", "unit": "row", "neighbours": "replace", "fields": [{"name": "x", **keys}]}
    with pytest.raises(SchemaError, match=re.escape(sentence)) as refused:
        Schema.from_dict(told)
    assert "column 'x'" in str(refused.value)


def test_releases_have_plain_numbers_and_dates(tmp_path: Path) -> None:
    release = ds.synthesize(odd_rows(), odd_schema(), ds.MST(), budget=ds.PureDP(50), testing=True, noise_seed=1)
    table = release.tables[0]
    assert pa.types.is_floating(table.schema.field("pay").type)
    assert pa.types.is_date(table.schema.field("born").type)
    assert release.schema["pay"].domain.spelling is None
    pay = np.array([v for v in table["pay"].to_pylist() if v is not None])
    # 400 uniform amounts: the mean is 500 with s.e. 14, and noise of ε = 50 is next to nothing; 100 is 7 s.e. (1e-11)
    assert abs(pay.mean() - 500) < 100


@pytest.mark.parametrize("readable", [True, False])
def test_labelled_releases_have_them_where_every_cell_is_read(readable: bool) -> None:
    schema = odd_schema("label", "public")
    release = ds.synthesize(
        odd_rows(readable=readable), schema, ds.Forest(), budget=ds.PureDP(1), testing=True, noise_seed=1
    )
    pay = release.tables[0]["pay"]
    assert pa.types.is_floating(pay.type) == readable
    assert pa.types.is_date(release.tables[0].schema.field("born").type)
    if not readable:
        assert "five" in pay.to_pylist()
    codes, _ = Encoder(release.schema, ["pay"]).encode(release.tables[0])
    wanted, _ = Encoder(schema, ["pay"]).encode(odd_rows(readable=readable))
    assert np.bincount(codes["pay"], minlength=11).tolist() == np.bincount(wanted["pay"], minlength=11).tolist()


def test_a_database_refuses_to_read_them(tmp_path: Path) -> None:
    import duckdb

    with duckdb.connect(str(tmp_path / "odd.duckdb")) as connection:
        odd = odd_rows()  # noqa: F841 - read by name
        connection.execute("CREATE TABLE odd AS SELECT * FROM odd")
        connection.execute("CREATE VIEW fine AS SELECT 5.0::DOUBLE AS pay, DATE '1970-01-01' AS born, sex FROM odd")
    with pytest.raises(SourceError, match=r"column 'pay' is written such as 1,234.5.*give a view"):
        rows_of(source(f"duckdb://{tmp_path / 'odd.duckdb'}", table="odd"), odd_schema()).total()
    assert rows_of(source(f"duckdb://{tmp_path / 'odd.duckdb'}", table="fine"), odd_schema()).total() == 400


def test_forms_are_told_apart_by_their_own_examples() -> None:
    found, has = find_forms(pa.array(FORMS))
    assert has.all()
    assert found.tolist() == list(range(len(FORMS)))
    others = pa.array(["A12", "Room 5", "1.2.3", "555-1234", "12:30", "2020-01-01", "5 km", "12/2020", "1,2,3", "x"])
    assert not find_forms(others)[1].any()


@pytest.mark.parametrize(
    ("counts", "keys"),
    [
        ({"$1,234.5": 9, "$1.5": 3}, {"groupChar": ",", "bareNumber": False}),
        ({"1,234": 9, "integer": 3}, {"groupChar": ","}),
        ({"1,234": 9, "1234,5": 3}, {"decimalChar": ","}),
        ({"1.234.567": 2, "1.234": 9}, {"decimalChar": ",", "groupChar": "."}),
        ({"$1": 9}, {"bareNumber": False}),
        ({"1/2/1970": 9, "31/12/1970": 1}, {"format": "%d/%m/%Y"}),
        ({"1/2/1970": 9, "12/31/1970": 1}, {"format": "%m/%d/%Y"}),
        ({"31-DEC-1970": 1}, {"format": "%d-%b-%Y"}),
    ],
)
def test_the_spelling_that_reads_most_is_chosen(counts: dict[str, int], keys: dict[str, object]) -> None:
    assert choose_spelling(counts)[0].keys == keys
