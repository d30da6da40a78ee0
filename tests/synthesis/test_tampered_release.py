"""A release whose files were changed, and its card's digests with them: named as damage, never a traceback."""

import json
import os
import shutil
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import dipsmith as ds
from dipsmith.errors import DamageError
from dipsmith.synthesis.card import Card
from dipsmith.synthesis.release import Release, files_of
from dipsmith.synthesis.verify import verify
from dipsmith.synthesis.writing import digest

ROWS = 40
FIELDS = [
    {"name": "age", "type": "integer", "minimum": 0, "maximum": 9},
    {"name": "sex", "type": "string", "enum": ["F", "M"], "other": "M"},
    {"name": "pay", "type": "number", "minimum": 0, "maximum": 9, "bins": {"count": 3}},
    {
        "name": "day",
        "type": "date",
        "minimum": "2011-01-01",
        "maximum": "2011-12-31",
        "bins": {"width": "month"},
    },
]


@pytest.fixture(scope="module")
def whole(tmp_path_factory):
    schema = ds.Schema.from_dict({"name": "p", "unit": "row", "neighbours": "replace", "fields": FIELDS})
    rows = pa.table({"age": [1] * ROWS, "sex": ["F"] * ROWS, "pay": [1.0] * ROWS, "day": ["2011-02-03"] * ROWS})
    made = ds.synthesize(rows, schema, ds.Flat(), budget=ds.PureDP(1), testing=True)
    return made.save(tmp_path_factory.mktemp("made") / "release")


@pytest.fixture
def folder(whole, tmp_path):
    return Path(shutil.copytree(whole, tmp_path / "release"))


def stamped(folder, **facts):
    """The card again, with the digests of what is there now."""
    card = json.loads((folder / "card.json").read_text("utf-8"))
    files = {name: digest(folder / name) for name in files_of(folder) if name != "card.json"}
    (folder / "card.json").write_text(json.dumps({**card, "files": files, **facts}), "utf-8")


@pytest.mark.slow
def test_the_release_is_whole_and_can_be_stamped_again(folder):
    stamped(folder)
    assert str(verify(folder)).count("1 set of 40 rows") == 1


COLUMNS = {
    "text for integers": ("age", pa.array(["x"] * ROWS), "another type"),
    "lists for text": ("sex", pa.array([["F"]] * ROWS), "another type"),
    "bytes for text": ("sex", pa.array([b"\xff"] * ROWS), "another type"),
    "text for dates": ("day", pa.array(["soon"] * ROWS), "another type"),
    "integers for dates": ("day", pa.array([2**40] * ROWS), "another type"),
    "structs for numbers": ("pay", pa.array([{"a": 1}] * ROWS), "another type"),
    "nan among numbers": ("pay", pa.array([1.0] * (ROWS - 1) + [float("nan")]), "bounds"),
    "beyond the bounds": ("age", pa.array([1] * (ROWS - 1) + [10]), "bounds"),
    "not in the list": ("sex", pa.array(["F"] * (ROWS - 1) + ["X"]), "list"),
    "missing": ("pay", pa.nulls(ROWS, pa.float64()), "missing values"),
}


@pytest.mark.parametrize("case", COLUMNS)
def test_values_of_another_kind(folder, case):
    name, values, mention = COLUMNS[case]
    table = pq.read_table(folder / "synthetic-1.parquet")
    pq.write_table(table.set_column(table.column_names.index(name), name, values), folder / "synthetic-1.parquet")
    stamped(folder)
    with pytest.raises(DamageError, match=f"column '{name}'.*{mention}"):
        verify(folder)


@pytest.mark.parametrize("name", ["secret", "sex"])
def test_columns_that_the_schema_does_not_describe(folder, name):
    table = pq.read_table(folder / "synthetic-1.parquet")
    pq.write_table(table.append_column(name, pa.array(["x"] * ROWS)), folder / "synthetic-1.parquet")
    stamped(folder)
    with pytest.raises(DamageError, match=f"column '{name}' is not described"):
        verify(folder)


def no_model(folder):
    (folder / "model-1.json").unlink()
    (folder / "model-1.npz").unlink()


FILES = {
    "a model of another name": lambda f: (f / "model-x.json").write_text("{}"),
    "no model": no_model,
    "no schema": lambda f: (f / "schema.yaml").unlink(),
    "another schema": lambda f: (f / "schema.yaml").write_text("colour: red\n"),
}


@pytest.mark.slow
@pytest.mark.parametrize("read", [verify, Release.load])
@pytest.mark.parametrize("case", FILES)
def test_files_that_are_none(folder, case, read):
    FILES[case](folder)
    stamped(folder)
    with pytest.raises(DamageError, match="get the release again"):
        read(folder)


@pytest.mark.parametrize(
    "facts",
    [
        *({"sets": n} for n in (0, -1, "2", 1.5, True)),
        *({"rows": n} for n in (-1, "x", None)),
        *({"currency": c} for c in ("euro", None)),
        *({"ledger_head": 5}, {"request": 5}, {"version": None}, {"created": None}, {"method": 1}),
        *({"notes": [1, {}]}, {"disclosed": [None]}, {"testing": "no"}, {"looks": "x"}, {"each": 2}),
        *({"files": {"card.html": 7}}, {"format": 99}),
    ],
    ids=str,
)
def test_facts_of_another_kind(folder, facts):
    stamped(folder, **facts)
    with pytest.raises(DamageError, match="not a card that this version can read"):
        Card.from_json((folder / "card.json").read_text("utf-8"))


def test_a_pipe_in_the_place_of_a_file_is_no_release(folder):
    """Whoever reads a pipe waits until somebody writes."""
    (folder / "synthetic-1.parquet").unlink()
    os.mkfifo(folder / "synthetic-1.parquet")
    with pytest.raises(DamageError, match="not a file"):
        verify(folder)


def test_a_link_to_a_folder_is_on_no_card(folder, tmp_path):
    (folder / "more").symlink_to(tmp_path)
    with pytest.raises(DamageError, match="'more' is not on the card"):
        verify(folder)
