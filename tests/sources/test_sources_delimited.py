"""CSV: what is accepted reads the same as Python's strict reader; what is not says where, and no value."""

from __future__ import annotations

import csv
import gzip
import io
import os
import stat
from collections.abc import Callable
from pathlib import Path

import hypothesis.strategies as st
import pyarrow as pa
import pytest
from hypothesis import given, settings

from dipsmith.errors import SourceError, UsageError
from dipsmith.sources import delimited, scan, source

SECRET = "s3cr3t"
GOOD = f"age,sex\n30,{SECRET}\n41,M\n"


def rows(path: Path, columns: list[str] | None = None, **options: str) -> list[tuple[str | None, ...]]:
    table = source(path, **options)
    names = list(table.columns) if columns is None else columns
    return [tuple(row.values()) for batch in table.batches(names) for row in batch.to_pylist()]


def failure(work: Callable[[], object]) -> str | None:
    """The message of the SourceError that some work raises, None when it does not; nothing else may be raised."""
    try:
        work()
    except SourceError as error:
        return str(error)
    return None


def refused(path: Path, required: list[str] | None = None, **options: str) -> str:
    """The syntax pass refuses the file, in one line that repeats no cell and says what to do."""
    with pytest.raises(SourceError) as caught:
        source(path, **options).check(["age"] if required is None else required)
    message = str(caught.value)
    assert "\n" not in message
    assert SECRET not in message
    assert message.startswith(str(path))
    assert ";" in message, "a message ends with a remedy"
    assert caught.value.__cause__ is None
    assert SECRET not in (failure(lambda: list(source(path, **options).batches(["age"]))) or "")
    return message


WRONG = {
    "empty": (b"", "empty"),
    "blank": (b"\n\n", "empty"),
    "blank first line": (b"\nage,sex\n30,F\n", "line 1: empty line"),
    "latin-1 cell": (f"age,sex\n30,{SECRET}\n41,é\n".encode("latin-1"), "line 3: not UTF-8"),
    "latin-1 header": ("age,âge\n30,1\n".encode("latin-1"), "line 1: not UTF-8"),
    "UTF-16 without mark": (GOOD.encode("utf-16-le"), "NUL"),
    "UTF-32": (GOOD.encode("utf-32"), "UTF-32"),
    "UTF-16 cut in half": (GOOD.encode("utf-16")[:-1], "line 3: not UTF-16"),
    "UTF-16 lone surrogate": (b"\xff\xfea\x00g\x00e\x00\n\x00\x00\xdc\n\x00", "line 2: not UTF-16"),
    "NUL byte": (f"age,sex\n30,{SECRET}\n4\x001,M\n".encode(), "line 3: NUL"),
    "NUL in header": (b"age,s\x00ex\n30,F\n", "line 1: NUL"),
    "too few fields": (f"age,sex\n30,{SECRET}\n41\n".encode(), "line 3: 1 field where"),
    "too many fields": (f"age,sex\n30,F\n41,M,{SECRET}\n".encode(), "line 3: 3 fields where"),
    "trailing delimiter": (b"age,sex\n30,F,\n", "line 2: 3 fields"),
    "ragged last line": (f"age,sex\n30,F\n{SECRET}".encode(), "line 3: 1 field"),
    "ragged after a quoted newline": (b'age,sex\n"3\n0",F\n41\n', "line 4: 1 field"),
    "unclosed quote": (f'age,sex\n30,F\n41,"{SECRET}\n50,M\n'.encode(), "line 3: a quoted field opens here"),
    "unclosed after a doubled quote": (b'age,sex\n41,"a\n""b\nc\n', "line 2: a quoted field opens here"),
    "unclosed quote then a quote": (
        f'age,sex\n41,"{SECRET}\n50,"M"\n'.encode(),
        "line 2: a quoted field opens here",
    ),
    "quote inside a field": (f'age,sex\n30,5"{SECRET}\n41,M\n'.encode(), "line 2: a quote inside"),
    "text after a quote": (f'age,sex\n30,"F"{SECRET}\n'.encode(), "line 2: a quoted field opens here"),
    "text after a doubled quote": (
        f'age,sex\n30,"F""x"{SECRET}\n'.encode(),
        "line 2: a quoted field opens here",
    ),
    "unclosed header": (b'age,"sex\n30,F\n', "line 1"),
    "text after a quoted name": (b'age,"sex"x\n30,F\n', "line 1"),
    "carriage returns for line ends": (b"age,sex\r30,F\r41,M\r", "line 1"),
    "stray carriage return": (f"age,sex\n30,F\n41,{SECRET}\rM\n".encode(), "line 3: a carriage return"),
    "two carriage returns": (b"age,sex\r\n30,F\r\r\n", "line 2: a carriage return"),
    "repeated name": (b"age,sex,age\n30,F,30\n", "columns 1 and 3 have the same name ('age')"),
    "repeated foreign name": (
        f"{SECRET},age,{SECRET}\n30,F,30\n".encode(),
        "columns 1 and 3 have the same name",
    ),
    "empty name": (b"age,,sex\n30,x,F\n", "column 2 has no name"),
    "name of spaces": (b"age, ,sex\n30,x,F\n", "column 2 has no name"),
    "missing column": (b"years,sex\n30,F\n", "column 'age' not found among its 2 columns"),
    "no header": (f"30,{SECRET}\n41,M\n".encode(), "column 'age' not found"),
    "column in other case": (b"Age,sex\n30,F\n", "letter case or spaces"),
    "gzip cut short": (gzip.compress(GOOD.encode(), mtime=0)[:-9], "gzip file ends too early"),
    "gzip damaged": (
        gzip.compress(os.urandom(3000), mtime=0)[:1000] + b"\0" * 200 + b"\1" * 2000,
        "gzip file is damaged",
    ),
    "gzip wrong sum": (gzip.compress(GOOD.encode(), mtime=0)[:-8] + b"\0" * 8, "gzip file is damaged"),
    "gzip of nothing": (gzip.compress(b"", mtime=0), "empty"),
    "zip or Excel": (b"PK\x03\x04" + b"\0" * 50, "zip archive or an Excel workbook"),
    "SPSS": (b"$FL2@(#) SPSS DATA FILE", "SPSS"),
    "Arrow file": (b"ARROW1\0\0", "Arrow (Feather)"),
    "PDF": (b"%PDF-1.7\n", "PDF"),
}


@pytest.mark.parametrize("name", WRONG)
def test_wrong_files_are_refused_with_line_and_remedy(tmp_path: Path, name: str) -> None:
    content, expected = WRONG[name]
    path = tmp_path / "table.csv"
    path.write_bytes(content)
    assert expected in refused(path)


def test_wrong_encoding_and_unknown_encoding(tmp_path: Path) -> None:
    path = tmp_path / "table.csv"
    path.write_bytes(f"age,sex\n30,{SECRET}\n41,é\n".encode())
    assert "line 3: not ascii" in refused(path, encoding="ascii")
    assert "unknown encoding" in refused(path, encoding="klingon")
    assert "unknown encoding" in refused(path, encoding="hex")


def test_a_pipe_cannot_be_read_twice(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe.csv")
    assert "not a regular file" in refused(tmp_path / "pipe.csv")


def test_header_with_an_open_quote_takes_no_time(tmp_path: Path) -> None:
    path = tmp_path / "table.csv"
    path.write_text('"age,sex\n' + "30,F\n" * 400_000)
    assert "line 1" in refused(path)


def test_missing_file_folder_and_permission(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    assert "no such file" in refused(tmp_path / "nothing.csv")
    empty = tmp_path / "empty"
    empty.mkdir()
    assert "folder without CSV or Parquet" in refused(empty)
    assert "no file matches" in refused(tmp_path / "*.csv")
    path = tmp_path / "table.csv"
    path.write_text(GOOD)
    path.chmod(0)
    # root may read everything, so that the refusal is simulated where the tests run as root
    if os.access(path, os.R_OK):

        def deny(self: Path, *args: object) -> object:
            raise PermissionError(13, "Permission denied")

        monkeypatch.setattr(Path, "open", deny)
    assert "permission denied" in refused(path)
    assert stat.S_IMODE(path.stat().st_mode) == 0


def test_broken_pipe_is_one_line(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "table.csv"
    path.write_text(GOOD)

    def fail(self: Path, *args: object) -> object:
        raise OSError(5, "Input/output error")

    monkeypatch.setattr(Path, "open", fail)
    assert "Input/output error" in refused(path)


def test_record_longer_than_the_limit(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(scan, "MAX_RECORD", 1000)
    path = tmp_path / "table.csv"
    path.write_text(f'age,sex\n30,F\n41,"{"x" * 5000}\n')
    assert "line 3" in refused(path)
    path.write_text(f'age,sex\n30,F\n41,"{"x" * 1500}"\n50,M\n')
    assert "line 3: a record longer than 1000" in refused(path)
    path.write_text("a" * 2000)
    assert "line 1: the header is longer" in refused(path)


def test_gzip_bomb_stops_early_in_little_memory(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "bomb.csv.gz"
    monkeypatch.setattr(delimited, "FREE_EXPANSION", 1 << 22)
    with gzip.open(path, "wb", compresslevel=9) as file:
        file.write(b"age,sex\n")
        for _ in range(64):
            file.write(b"30,F\n" * (1 << 18))
    assert path.stat().st_size < 300_000
    before = pa.total_allocated_bytes()
    assert "unpacks to more than 200 times its size" in refused(path)
    assert pa.total_allocated_bytes() - before < 1 << 24
    with gzip.open(path, "wb") as file:
        file.write(b"age,sex\n")
        file.write(b"x" * (1 << 24))
    assert "line 2: a record longer than 1048576 bytes" in refused(path)


@pytest.mark.parametrize(
    "content",
    [
        GOOD.encode(),
        GOOD.encode("utf-8-sig"),
        GOOD.encode("utf-16"),
        b"\xfe\xff" + GOOD.encode("utf-16-be"),
        GOOD.replace("\n", "\r\n").encode(),
        GOOD.rstrip().encode(),
        GOOD.replace(",", ";").encode(),
        GOOD.replace(",", "\t").encode(),
        GOOD.replace(",", "|").encode(),
        GOOD.replace("\n", "\n\n").encode() + b"\r\n\n",
        f'"age","sex"\n"30","{SECRET}"\n"41","M"\n'.encode(),
        gzip.compress(GOOD.encode(), mtime=0),
        gzip.compress(GOOD[:10].encode(), mtime=0) + gzip.compress(GOOD[10:].encode(), mtime=0),
        gzip.compress(GOOD.encode("utf-16"), mtime=0),
    ],
)
def test_spellings_of_one_table(tmp_path: Path, content: bytes) -> None:
    path = tmp_path / "table.csv"
    path.write_bytes(content)
    table = source(path)
    table.check(["age", "sex"])
    assert table.columns == ("age", "sex")
    assert rows(path) == [("30", SECRET), ("41", "M")]
    assert rows(path, ["sex"]) == [(SECRET,), ("M",)]


def test_latin_1_only_when_asked(tmp_path: Path) -> None:
    path = tmp_path / "table.csv"
    path.write_bytes("âge;nom\n30;Zoë\n".encode("latin-1"))
    assert "not UTF-8" in refused(path, ["nom"])
    source(path, encoding="latin-1").check(["âge", "nom"])
    assert rows(path, encoding="latin-1") == [("30", "Zoë")]


def test_given_delimiter_wins(tmp_path: Path) -> None:
    path = tmp_path / "table.csv"
    path.write_text("a,b;c\n1,2;3\n")
    assert source(path).columns == ("a", "b;c")
    assert rows(path, delimiter=";") == [("1,2", "3")]
    path.write_text("a\tb\n1,2\t3\n")
    assert rows(path, delimiter="\\t") == rows(path, delimiter="tab") == [("1,2", "3")]
    for bad in ("", ";;", '"', "\n", "é"):
        with pytest.raises(UsageError, match="delimiter= must be one character"):
            source(path, delimiter=bad)
    path.write_text("one;two\n1;2\n")
    assert "single column (is the delimiter right?)" in refused(path, ["one"], delimiter=",")


def test_only_empty_fields_are_missing(tmp_path: Path) -> None:
    path = tmp_path / "table.csv"
    path.write_text('a,b\nNA,\n"",null\nnan, \n')
    source(path).check(["a"])
    assert rows(path) == [("NA", None), (None, "null"), ("nan", " ")]


@pytest.mark.parametrize("start", ["", "\ufeff"], ids=["plain", "marked"])
def test_a_byte_order_mark_in_the_first_record_is_part_of_it(tmp_path: Path, start: str) -> None:
    """As in any other record; a record of nothing else is not an empty line."""
    for line, expected in (("\ufeffF,1\n", ["\ufeffF"] * 2), ("\ufeff\n", ["\ufeff"] * 2)):
        names = "x,y" if "," in line else "x"
        path = tmp_path / f"{names}.csv"
        path.write_bytes(f"{start}{names}\n{line}{line}".encode())
        found = source(path)
        found.check(["x"])
        assert [row["x"] for batch in found.batches(["x"]) for row in batch.to_pylist()] == expected


def test_header_only_has_no_rows(tmp_path: Path) -> None:
    path = tmp_path / "table.csv"
    for text in ("age,sex", "age,sex\n", "age,sex\r\n\r\n", "age\n"):
        path.write_text(text)
        source(path).check(["age"])
        assert rows(path, ["age"]) == []


def test_file_that_changes_between_passes(tmp_path: Path) -> None:
    path = tmp_path / "table.csv"
    path.write_text(GOOD)
    table = source(path)
    table.check(["age"])
    path.write_text(GOOD + "50,F\n")
    with pytest.raises(SourceError, match="changed while it was being read"):
        list(table.batches(["age"]))


def test_batches_are_bounded_and_progress_ends_at_one(tmp_path: Path) -> None:
    path = tmp_path / "table.csv"
    path.write_text("age,sex\n" + "30,F\n" * 2_000_000)
    told: list[float] = []
    sizes = [batch.nbytes for batch in source(path).batches(["age"], told.append)]
    assert len(sizes) > 3
    assert max(sizes) < 4 << 20
    assert told == sorted(told)
    assert told[-1] == 1.0


def test_quoted_newlines_across_blocks(tmp_path: Path) -> None:
    path = tmp_path / "table.csv"
    long = "x\n" * 5_000
    expected = [(str(i), f'{i} "{long}", end') for i in range(700)]
    with path.open("w", newline="") as file:
        csv.writer(file).writerows([("n", "text"), *expected])
    source(path).check(["n", "text"])
    assert rows(path) == expected
    with path.open("a") as file:
        file.write("700\n")
    # one line for the header, 5001 for every record, then the bad one
    assert f"line {1 + 700 * 5001 + 1}: 1 field" in refused(path, ["n"])


FIELD = st.text(alphabet='ab,;"\n\r\t é', max_size=5)


@settings(max_examples=60, deadline=None)
@given(
    st.lists(st.tuples(FIELD, FIELD), max_size=8),
    st.sampled_from(",;\t|"),
    st.booleans(),
    st.sampled_from(["\n", "\r\n"]),
)
def test_whatever_a_writer_writes_is_read_back(
    tmp_path_factory: pytest.TempPathFactory,
    table: list[tuple[str, str]],
    delimiter: str,
    quote_all: bool,
    end: str,
) -> None:
    path = tmp_path_factory.mktemp("csv") / "table.csv"
    with path.open("w", newline="", encoding="utf-8") as file:
        quoting = csv.QUOTE_ALL if quote_all else csv.QUOTE_MINIMAL
        writer = csv.writer(file, delimiter=delimiter, quoting=quoting, lineterminator=end)
        writer.writerow(["first", "second"])
        # the writer leaves a lone carriage return bare unless everything is quoted
        clean = table if quote_all else [tuple(f.replace("\r", "") for f in row) for row in table]
        writer.writerows(clean)
    source(path).check(["first", "second"])
    assert rows(path) == [tuple(field or None for field in row) for row in clean]


@settings(max_examples=400, deadline=None)
@given(st.text(alphabet='ab,"\n\r', max_size=24), st.sampled_from([5, 7, 1 << 21]))
def test_what_passes_the_scan_reads_like_the_strict_reader(
    tmp_path_factory: pytest.TempPathFactory, body: str, block: int
) -> None:
    path = tmp_path_factory.mktemp("csv") / "table.csv"
    path.write_text("x,y\n" + body, newline="")
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(delimited, "_BLOCK", block)
        problem = failure(lambda: source(path).check(["x", "y"]))
    if problem is not None:
        assert "line " in problem
        return
    strict = [row for row in csv.reader(io.StringIO(body, newline=""), strict=True) if row]
    assert rows(path) == [tuple(field or None for field in row) for row in strict]


@settings(max_examples=200, deadline=None)
@given(
    st.lists(
        st.lists(st.sampled_from(["a", "", '"q"', '"x,y"', '"d""d"', '"n\nn"']), min_size=1, max_size=3),
        max_size=6,
    )
)
def test_the_scan_accepts_exactly_the_right_field_counts(
    tmp_path_factory: pytest.TempPathFactory, records: list[list[str]]
) -> None:
    path = tmp_path_factory.mktemp("csv") / "table.csv"
    path.write_text("x,y\n" + "".join(",".join(record) + "\n" for record in records), newline="")
    fine = all(len(record) == 2 or record == [""] for record in records)
    if fine:
        source(path).check(["x", "y"])
    else:
        first = next(i for i, record in enumerate(records) if len(record) != 2 and record != [""])
        line = 2 + first + sum(field.count("\n") for record in records[:first] for field in record)
        with pytest.raises(SourceError, match=f"line {line}: {len(records[first])} field"):
            source(path).check(["x", "y"])
