"""The bytes of a release do not know the order, the form, the neighbours or the surroundings of the private table.

`make audit` compares every method and setting on more tables; the engines (polars, DuckDB, PostgreSQL, Spark) are in
`tests/sources/test_sources_bytes.py`.
"""

import csv
import json
import os
import pickle
import sqlite3
import subprocess
import sys
import tempfile
from collections import Counter
from datetime import UTC, date, datetime
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.csv as pa_csv
import pyarrow.parquet as pq
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import dipsmith as ds
from assurance.bytes import EXCEPTED, Run, check_forms, differences, read_release
from assurance.cases import planned_cases, registered_cases
from assurance.forms import CANARY, FORMS, form_schema, form_table, make_forms
from assurance.pairs import PRIVATE, neighbours
from assurance.rerun import check_pair
from dipsmith.methods.catalogue import METHODS
from dipsmith.privacy.budget import PureDP
from dipsmith.privacy.randomness import generator

ROOT = str(Path(__file__).parents[2])
CASES = registered_cases(PRIVATE)
LABELLING = [case for case in CASES if case.relation == "label"]


def named(case):
    return f"{case.name}/{case.relation}"


def forms_of(case):
    """Every form for labels, and for made rows, which both relations read alike; every sixth for the other methods."""
    if case.name == "loglinear":
        return tuple(FORMS)
    parts = 2 if case.name == "flat" else 6
    return tuple(FORMS)[CASES.index(case) % parts :: parts]


@pytest.mark.parametrize(
    ("case", "forms"),
    [
        *(pytest.param(case, forms_of(case), id=named(case)) for case in CASES),
        *(pytest.param(case, tuple(FORMS), id=f"{named(case)}/all", marks=pytest.mark.crowd) for case in CASES),
    ],
)
def test_orders_and_forms_of_the_private_table_are_not_told(case, forms, tmp_path):
    """In both formats; the number of sets, how they are made and the unit go by the seed."""
    findings, compared = check_forms(case, 3 + CASES.index(case), tmp_path, forms=forms)
    assert findings == []
    assert compared > len(forms)


@pytest.mark.parametrize("case", LABELLING, ids=named)
@pytest.mark.parametrize("seed", [0, *(pytest.param(seed, marks=pytest.mark.crowd) for seed in (1, 2, 3))])
def test_labelled_releases_tell_no_order_in_either_format(case, seed, tmp_path):
    forms = ("CSV", "Parquet from dictionaries", "Arrow with a dictionary per chunk", "pandas, categories")
    assert check_forms(case, seed, tmp_path, 30 + seed, forms, ("parquet", "csv", "dta", "sav"))[0] == []


PLANNED = [c for c in planned_cases(PRIVATE) if c.relation == "label"]


@pytest.mark.parametrize(
    ("case", "forms"),
    [
        (PLANNED[0], ("Parquet from dictionaries",)),
        *(pytest.param(case, tuple(FORMS), marks=pytest.mark.crowd) for case in PLANNED),
    ],
    ids=lambda value: named(value) if not isinstance(value, tuple) else f"{len(value)} forms",
)
@pytest.mark.slow
@pytest.mark.filterwarnings("ignore::dipsmith.errors.HopelessNoise")
def test_results_and_labels_that_carry_them_tell_no_order_or_form(case, forms, tmp_path):
    """Planned analyses: sums of floating-point weights, estimates, and calibrated labels."""
    findings, compared = check_forms(case, 3, tmp_path, 31, forms)
    assert findings == []
    assert compared > len(forms)
    assert (tmp_path / "first" / "results.json").is_file()


# --- tables of any kind ----------------------------------------------------------------------------

TEXT = st.text(st.characters(codec="utf-8", exclude_characters="\0\r\ufeff"), max_size=8)
ROW = st.tuples(
    TEXT,
    st.none() | st.integers(-(10**6), 10**6),
    st.sampled_from(["a", "b", "c", "z"]),
    st.none() | st.floats(-1e6, 1e6),
    st.dates(date(1970, 1, 1), date(2030, 1, 1)),
    st.booleans(),
    st.sampled_from(["F", "M", "?"]),
    st.sampled_from(["A", "B", "C"]),
)
NAMES = ("town", "age", "grade", "pay", "born", "veteran", "sex", "race")
TYPES = (
    pa.string(),
    pa.int64(),
    pa.string(),
    pa.float64(),
    pa.date32(),
    pa.bool_(),
    pa.string(),
    pa.string(),
)


@settings(max_examples=20, derandomize=True, deadline=None)
@given(st.lists(ROW, min_size=1, max_size=12), st.randoms(use_true_random=False), st.data())
def test_no_table_is_found_whose_order_or_form_is_told(rows, shuffling, data):
    """Any table in any order, and in a form that keeps every value."""
    keeping = [f for f in FORMS if not f.startswith("CSV")]
    case = data.draw(st.sampled_from([*LABELLING, *CASES]))
    form = data.draw(st.sampled_from(keeping))
    run = Run(form_schema(case.relation), case.method, ("parquet", "csv"))
    tables = []
    for _ in range(2):
        columns = [pa.array(c, t) for c, t in zip(zip(*rows, strict=True), TYPES, strict=True)]
        table = pa.table(dict(zip(NAMES, columns, strict=True)))
        seen = pa.array([0] * len(rows), pa.timestamp("us"))
        tables.append(table.append_column("seen", seen).append_column("id", table["town"]))
        shuffling.shuffle(rows)
    with tempfile.TemporaryDirectory() as folder:
        place = Path(folder)
        first = run.release(tables[0], place, "first")
        (other,) = make_forms(tables[1], place / "forms", 1, [form]).values()
        assert differences(first, run.release(other, place, "second")) == []


# --- neighbours ------------------------------------------------------------------------------------


@pytest.mark.parametrize("case", CASES, ids=named)
def test_a_neighbour_in_another_order_and_form_leaves_the_same_bytes(case, tmp_path):
    """Given the recorded answers; under `label` the neighbour has the same public rows."""
    seed = 8 + CASES.index(case)

    def reshape(table):
        shuffled = table.take(generator(seed).permutation(table.num_rows))
        (made,) = make_forms(shuffled, tmp_path / "form", seed, ["Parquet from dictionaries"]).values()
        return made

    pair = neighbours(case.relation, seed)
    checked = check_pair(pair, case, PureDP(2), seed, tmp_path, figures=False, reshape=reshape)
    assert checked.findings == ()


# --- the leaks themselves --------------------------------------------------------------------------


def sorted_by_secret(n=40):
    """A file that is sorted by its private column."""
    random = generator(5)
    table = form_table(random, n + 1 - n % 2)
    return table.sort_by([("sex", "ascending"), ("id", "ascending")])


@pytest.mark.parametrize("form", ["CSV", "Parquet from dictionaries", "Arrow with dictionaries"])
def test_no_dictionary_of_a_release_comes_from_the_file(form, tmp_path):
    """A dictionary in the order of first appearance tells a column that the file is sorted by."""
    table = sorted_by_secret()
    run = Run(form_schema("label"), LABELLING[0].method)
    (data,) = make_forms(table, tmp_path / "form", 1, [form]).values()
    run.release(data, tmp_path, "release")
    held = pq.read_table(tmp_path / "release" / "synthetic-1.parquet", read_dictionary=["town"])
    assert not any(
        pa.types.is_dictionary(t) for t in pq.read_schema(tmp_path / "release" / "synthetic-1.parquet").types
    )
    town = held.column("town").combine_chunks()
    entries = town.dictionary.to_pylist()
    assert entries == list(dict.fromkeys(v for v in held.column("town").to_pylist() if v is not None))
    assert entries != [t for t in table.column("town").to_pylist() if t is not None]


def test_a_seed_does_not_tell_where_a_row_was(tmp_path):
    """The label that a seed gives to a row depends on the public rows, not on its place in the file."""
    table = sorted_by_secret()
    run = Run(form_schema("label"), LABELLING[0].method)
    labels = []
    for name, data in {"one": table, "other": table.take(np.arange(table.num_rows)[::-1])}.items():
        run.release(data, tmp_path, name)
        made = pq.read_table(tmp_path / name / "synthetic-1.parquet")
        labels.append(Counter(zip(made["town"].to_pylist(), made["sex"].to_pylist(), strict=True)))
    assert labels[0] == labels[1]


@pytest.mark.parametrize("relation", ["label", "replace"])
@pytest.mark.parametrize("form", ["Arrow with metadata", "Parquet with metadata", "pandas, objects"])
def test_no_metadata_of_the_private_table_is_released(form, relation, tmp_path):
    case = next(c for c in CASES if c.relation == relation)
    (data,) = make_forms(sorted_by_secret(), tmp_path / "form", 1, [form]).values()
    made = Run(form_schema(relation), case.method).release(data, tmp_path, "release")
    assert [name for name, held in made.items() if CANARY.encode() in held] == []
    schema = pq.read_schema(tmp_path / "release" / "synthetic-1.parquet")
    assert not schema.metadata
    assert not any(field.metadata for field in schema.remove_metadata())


def test_what_is_read_of_a_file_does_not_decide_the_time_on_the_card(tmp_path, monkeypatch):
    """The card says when the budget was reserved: how long reading took is not told."""
    from dipsmith.privacy.curator import Curator

    ledger = ds.Ledger(tmp_path / "b.db")
    ledger.grant("formed", ds.PureDP(2), by="auditor")
    measured, delay = Curator.measure, []

    def slow(self, *asked):
        import time

        if not delay:
            delay.append(time.sleep(2.1))
        return measured(self, *asked)

    monkeypatch.setattr(Curator, "measure", slow)
    start = datetime.now(UTC).isoformat(timespec="seconds")
    release = ds.synthesize(
        form_table(generator(1), 9), form_schema("replace"), ds.Flat(), budget=ds.PureDP(1), ledger=ledger
    )
    with sqlite3.connect(tmp_path / "b.db") as book:
        (reserved,) = book.execute("SELECT time FROM entry WHERE kind = 'reserved'").fetchone()
    assert start <= release.card.created <= reserved[:19] + "+00:00"


@pytest.mark.parametrize("case", [c for c in CASES if c.name in ("forest", "loglinear", "mst")], ids=named)
def test_tables_and_models_in_memory_are_the_same_to_the_last_bit(case, tmp_path):
    """Thousands of rows: buffers, what lies under missing values, and sums of floats know no order either."""
    random = generator(6)
    table = form_table(random, 3001)
    turned = table.sort_by([("sex", "ascending"), ("id", "descending")])
    forms = make_forms(turned, tmp_path, 6, ["CSV", "Arrow with a dictionary per chunk", "Arrow, sliced"])
    held = []
    for data in (table, *forms.values()):
        release = ds.synthesize(
            data, form_schema(case.relation), case.method, budget=PureDP(2), sets=2, each="split", seed=1,
            testing=True, noise_seed=1,
        )  # fmt: skip
        held.append(pickle.dumps([*release.tables, *(m.to_bytes() for m in release.models)]))
        assert CANARY.encode() not in held[-1]
        for column in (c for t in release.tables for c in t.columns):
            assert all(chunk.offset == 0 for chunk in column.chunks), "a piece of something larger"
    assert [h == held[0] for h in held] == [True] * 4


# --- two independent readers -----------------------------------------------------------------------


@pytest.mark.parametrize("case", CASES, ids=named)
def test_two_readers_read_the_same_from_a_release(case, tmp_path):
    """What was written says one thing, to pyarrow, DuckDB, polars and Python's own csv."""
    duckdb, polars = pytest.importorskip("duckdb"), pytest.importorskip("polars")
    table = form_table(generator(11), 21)
    Run(form_schema(case.relation), case.method, ("parquet", "csv")).release(table, tmp_path, "made")
    texts = {}
    for kind, folder in (("parquet", "made"), ("csv", "made-csv")):
        path = tmp_path / folder / f"synthetic-1.{kind}"
        if kind == "parquet":
            read = {
                "pyarrow": pq.read_table(path).to_pylist(),
                "duckdb": duckdb.sql(f"from read_parquet('{path}')").arrow().read_all().to_pylist(),
                "polars": polars.read_parquet(path).to_dicts(),
            }
        else:
            with path.open(newline="", encoding="utf-8") as file:
                own = [{k: v or None for k, v in row.items()} for row in csv.DictReader(file)]
            told = duckdb.sql(f"from read_csv('{path}', all_varchar=true, header=true)").arrow().read_all().to_pylist()
            columns = dict.fromkeys(own[0], pa.string())
            options = pa_csv.ConvertOptions(column_types=columns, strings_can_be_null=True)
            read = {
                "csv": own,
                "duckdb": told,
                "polars": polars.read_csv(path, infer_schema=False).to_dicts(),
                "pyarrow": pa_csv.read_csv(path, convert_options=options).to_pylist(),
            }
        first, *others = read.values()
        for other in others:
            assert other == first
        texts[kind] = [(row["grade"], row["sex"], row["race"]) for row in first]
    assert texts["parquet"] == texts["csv"]


# --- surroundings ----------------------------------------------------------------------------------

RUN = """
import datetime, os, sys, time
here, source, name, changed = sys.argv[1:5]
if changed == "yes":
    os.umask(0o077)
    import getpass, platform, socket
    real, clock = datetime.datetime, time.time
    class Later(real):
        @classmethod
        def now(cls, tz=None):
            return real.now(tz) + datetime.timedelta(days=4000)
        @classmethod
        def utcnow(cls):
            return real.utcnow() + datetime.timedelta(days=4000)
    time.time = lambda: clock() + 4000 * 86400
    socket.gethostname = platform.node = lambda: "secret-canary-host"
    os.uname = lambda: os.uname_result(("secret-canary",) * 5)
os.chdir(here)
from pathlib import Path
from dipsmith.audit.trial import default_method
from assurance.forms import form_schema
from assurance.bytes import Run
if changed == "yes":
    from dipsmith.synthesis import synthesize
    told = [m for n, m in list(sys.modules.items()) if n.startswith("dipsmith.") and vars(m).get("datetime") is real]
    assert told
    for module in told:
        module.datetime = Later
for relation, method in (("label", "forest"), ("replace", "mst")):
    made = default_method(method, relation, ("sex", "race"))
    Run(form_schema(relation, 2), made, sets=2, figures=relation == "label").release(source, Path(here), f"{name}-{method}")
"""


def test_clock_user_host_locale_names_and_hash_seed_are_not_told(tmp_path):
    """Two processes that share the rows and the answers, and nothing else."""
    table = form_table(generator(2), 24)
    here, there = tmp_path / "here", tmp_path / f"{CANARY} folder"
    here.mkdir()
    there.mkdir()
    pa_csv.write_csv(table, here / "rows.csv")
    pa_csv.write_csv(table, there / f"{CANARY}.csv")
    base = {k: v for k, v in os.environ.items() if not k.startswith(("LC_", "LANG", "TZ"))}
    changed = {
        "TZ": "Asia/Kathmandu", "USER": CANARY, "LOGNAME": CANARY, "USERNAME": CANARY, "HOME": str(there),
        "HOSTNAME": CANARY, "LC_ALL": "POSIX", "PYTHONUTF8": "0", "PYTHONCOERCECLOCALE": "0", "PYTHONHASHSEED": "77",
        "TMPDIR": str(there), "COLUMNS": "40", "NO_COLOR": "1",
    }  # fmt: skip
    for place, source, name, environment in (
        (here, here / "rows.csv", "one", {"PYTHONHASHSEED": "1", "LC_ALL": "C.UTF-8"}),
        (there, there / f"{CANARY}.csv", "other", changed),
    ):
        arguments = [sys.executable, "-c", RUN, place, source, name, "yes" if name == "other" else "no"]
        ran = subprocess.run(
            list(map(str, arguments)),
            env={
                **base,
                **environment,
                "PYTHONPATH": os.pathsep.join(filter(None, (ROOT, base.get("PYTHONPATH")))),
            },
            capture_output=True,
            text=True,
            check=False,
        )
        assert ran.returncode == 0, ran.stderr
    for method in ("forest", "mst"):
        one, other = read_release(here / f"one-{method}"), read_release(there / f"other-{method}")
        assert differences(one, other) == []
        assert not [name for name, held in other.items() if CANARY.encode() in held]


# --- the comparison itself -------------------------------------------------------------------------


def test_only_values_named_on_the_list_are_masked(tmp_path):
    """A byte more anywhere is found; an excepted value that differs is not."""
    run = Run(form_schema("replace"), METHODS["flat"]())
    table = form_table(generator(3), 9)
    one, again = (run.release(table, tmp_path, name) for name in ("one", "again"))
    assert differences(one, again) == []
    cards = [json.loads((tmp_path / name / "card.json").read_text("utf-8")) for name in ("one", "again")]
    assert {k for k in cards[0] if cards[0][k] != cards[1][k]} <= {*EXCEPTED, "files"}
    assert cards[0]["request"] != cards[1]["request"]
    for name in one:
        path = tmp_path / "again" / name
        was = path.read_bytes()
        path.write_bytes(was + b" ")
        if name == "card.json":
            with pytest.raises(ValueError, match="canonical"):
                read_release(tmp_path / "again")
        else:
            assert any(name in found for found in differences(one, read_release(tmp_path / "again")))
        path.write_bytes(was)
