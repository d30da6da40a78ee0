"""The bytes of a release do not know which engine held the private rows, nor how.

Engines on this machine must leave the bytes that an Arrow table leaves; a cluster writes folders of its own, which are compared
with those it writes for the same rows in another order, in other partitions and from other files.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.csv as pa_csv
import pyarrow.parquet as pq
import pytest

from assurance.bytes import Run, differences
from assurance.cases import Case, registered_cases
from assurance.forms import CANARY, form_schema, form_table
from assurance.pairs import PRIVATE
from dipsmith.audit.trial import default_method
from dipsmith.privacy.randomness import generator
from dipsmith.sources import source

pytestmark = [
    pytest.mark.filterwarnings("ignore::ResourceWarning"),
    pytest.mark.filterwarnings("ignore::DeprecationWarning:pyspark.*"),
]

CASES = registered_cases(PRIVATE)
HERE = (("flat", "add-remove"), ("mst", "replace"), ("forest", "label"))
EVERY_CASE = [
    pytest.param(
        case,
        id=f"{case.name}/{case.relation}",
        marks=[] if (case.name, case.relation) in HERE else [pytest.mark.crowd],
    )
    for case in CASES
]
"""Every method under every relation by `make audit`; here one for each relation."""
COLUMNS = """id varchar, town varchar, age bigint, grade varchar, pay double precision, born date, veteran boolean,
    seen timestamp, sex varchar, race varchar"""


def polars_frame(table: pa.Table, kind: str) -> Any:
    polars = pytest.importorskip("polars")
    frame = polars.from_arrow(table)
    if kind == "categories":
        return frame.with_columns(polars.col(polars.String).cast(polars.Categorical))
    if kind == "chunks":
        return polars.concat([frame[:7], frame[7:]], rechunk=False)
    return frame


def duckdb_table(table: pa.Table, path: Path, kind: str) -> Any:
    duckdb = pytest.importorskip("duckdb")
    columns = COLUMNS
    with duckdb.connect(str(path)) as connection:
        connection.register("given", table)
        if kind == "enum":
            connection.execute(f"CREATE TYPE grades AS ENUM ('{CANARY}', 'd', 'c', 'b', 'a')")
            columns = columns.replace("grade varchar", "grade grades")
        connection.execute(f"CREATE TABLE kept ({columns})")
        connection.execute(f"COMMENT ON TABLE kept IS '{CANARY}'")
        connection.execute("INSERT INTO kept SELECT * FROM given")
        if kind == "view":
            connection.execute("CREATE VIEW seen_as AS SELECT race, sex, * EXCLUDE (race, sex) FROM kept")
    return source(f"duckdb:///{path}", table="seen_as" if kind == "view" else "kept")


def postgresql_table(table: pa.Table, url: str, name: str) -> Any:
    import psycopg

    with psycopg.connect(url) as connection:
        connection.execute(f'DROP TABLE IF EXISTS "{name}"')
        connection.execute(f'CREATE TABLE "{name}" ({COLUMNS})')
        connection.execute(f"COMMENT ON COLUMN \"{name}\".town IS '{CANARY}'")
        with connection.cursor().copy(f'COPY "{name}" FROM STDIN') as copy:
            for row in zip(*(c.to_pylist() for c in table.columns), strict=True):
                copy.write_row(row)
    return source(url, table=name)


@pytest.mark.parametrize("case", EVERY_CASE)
def test_engines_leave_the_bytes_that_arrow_leaves(case: Case, tmp_path: Path, postgresql: str) -> None:
    """Every method under every relation, in both formats."""
    random = generator(17)
    table = form_table(random, 25)
    turned = table.take(random.permutation(table.num_rows))
    run = Run(form_schema(case.relation), case.method, ("parquet", "csv"))
    first = run.release(table, tmp_path, "first")
    forms = {
        **{f"polars, {kind}": polars_frame(turned, kind) for kind in ("text", "categories", "chunks")},
        **{f"duckdb, {k}": duckdb_table(turned, tmp_path / f"{k}.db", k) for k in ("table", "view", "enum")},
        "postgresql": postgresql_table(turned, postgresql, f"kept {case.name}"),
        "postgresql, sorted": postgresql_table(table.sort_by("sex"), postgresql, f"sorted {case.name}"),
    }
    findings = []
    for i, (name, data) in enumerate(forms.items()):
        made = run.release(data, tmp_path, f"other-{i}")
        findings += [f"{name}: {found}" for found in differences(first, made)]
        findings += [f"{name}: {file} tells the canary" for file, held in made.items() if CANARY.encode() in held]
    assert findings == []


@pytest.mark.parametrize(("method", "relation"), [("forest", "label"), ("marginals", "replace")])
def test_a_cluster_leaves_the_same_bytes_for_the_same_rows(
    method: str, relation: str, tmp_path: Path, spark: Any
) -> None:
    random = generator(23)
    table = form_table(random, 60)
    turned = table.take(random.permutation(table.num_rows))
    for name, rows in {"one": table, "two": turned}.items():
        (tmp_path / name).mkdir()
        pq.write_table(rows, tmp_path / name / "rows.parquet", row_group_size=7, coerce_timestamps="us")
    (tmp_path / "text").mkdir()
    pa_csv.write_csv(turned, tmp_path / "text" / "rows.csv")
    read = spark.session.read
    typed = read.parquet(str(tmp_path / "two"))
    forms = {
        "in another order": typed,
        "in five partitions": typed.repartition(5),
        "sorted by a private column": typed.orderBy("sex"),
        "from CSV": read.csv(str(tmp_path / "text"), header=True, schema=typed.schema, escape='"'),
        "in another order of columns": typed.select(*reversed(typed.columns)),
    }
    run = Run(form_schema(relation), default_method(method, relation, PRIVATE))
    first = run.release(read.parquet(str(tmp_path / "one")), tmp_path, "first")
    findings = []
    for i, (name, data) in enumerate(forms.items()):
        made = run.release(data, tmp_path, f"other-{i}")
        findings += [f"{name}: {found}" for found in differences(first, made)]
    assert findings == []


@pytest.mark.parametrize("case", EVERY_CASE)
def test_a_cluster_tells_no_order_by_any_method(case: Case, tmp_path: Path, spark: Any) -> None:
    """Every method under every relation; workers write Parquet alone."""
    table = form_table(generator(29), 25)
    (tmp_path / "rows").mkdir()
    pq.write_table(table, tmp_path / "rows" / "rows.parquet", coerce_timestamps="us")
    rows = spark.session.read.parquet(str(tmp_path / "rows"))
    run = Run(form_schema(case.relation), case.method)
    first = run.release(rows, tmp_path, "first")
    assert differences(first, run.release(rows.orderBy("sex").repartition(3), tmp_path, "other")) == []
