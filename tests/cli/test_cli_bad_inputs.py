"""Wrong inputs: one line that names the place and the remedy, the right exit code, nothing charged or left behind.

The values of the rows carry a canary, so that an error which echoes a private value is caught.
"""

import gzip
import os

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

SCHEMA = """
name: people
unit: row
neighbours: add-remove
fields:
  - {name: age, type: integer, minimum: 17, maximum: 90, bins: {width: 10}}
  - {name: sex, type: string, enum: [F, M]}
"""
CANARY = "CANARY7351"
ROWS = f"age,sex\n34,F\n{CANARY},M\n51,{CANARY}\n"


def text(content, encoding="utf-8"):
    return lambda path: path.write_bytes(content.encode(encoding))


def raw(content):
    return lambda path: path.write_bytes(content)


def parquet_without_sex(path):
    pq.write_table(pa.table({"age": [1, 2]}), path)


BAD_FILES = {
    "empty file": ("a.csv", raw(b""), "empty"),
    "blank lines only": ("a.csv", raw(b"\n\n\n"), ""),
    "latin-1": ("a.csv", text("age,sex\n34,Fé\n", "latin-1"), "line 2"),
    "utf-16 without mark": ("a.csv", text("age,sex\n34,F\n", "utf-16-le"), ""),
    "NUL byte": ("a.csv", raw(b"age,sex\n34,\x00F\n"), "line 2"),
    "too few fields": ("a.csv", text(f"age,sex\n34,F\n{CANARY}\n"), "line 3"),
    "too many fields": ("a.csv", text(f"age,sex\n34,F,{CANARY}\n"), "line 2"),
    "unclosed quote": ("a.csv", text(f'age,sex\n34,"{CANARY}\n'), ""),
    "duplicate header": ("a.csv", text("age,age,sex\n1,2,F\n"), "'age'"),
    "empty header name": ("a.csv", text("age,,sex\n1,2,F\n"), "column 2"),
    "missing column": ("a.csv", text("age,gender\n34,F\n"), "'sex'"),
    "no header": ("a.csv", text("34,F\n35,M\n"), "'age'"),
    "other delimiter in data": ("a.csv", text("age,sex\n34;F\n"), "line 2"),
    "binary": ("a.csv", raw(bytes(range(256)) * 8), ""),
    "truncated gzip": ("a.csv.gz", raw(gzip.compress(ROWS.encode() * 2000)[:200]), ""),
    "garbage in gzip": ("a.csv.gz", raw(b"\x1f\x8b\x08\x00garbage, not a stream"), ""),
    "one endless line": ("a.csv", raw(b"age,sex\n" + b"9" * (80 << 20)), ""),
    "not parquet": ("a.parquet", raw(b"PAR1 nothing else PAR1"), ""),
    "truncated parquet": ("a.parquet", raw(b"PAR1"), ""),
    "parquet without a column": ("a.parquet", parquet_without_sex, "'sex'"),
    "empty parquet": ("a.parquet", raw(b""), ""),
}


@pytest.fixture
def office(dipsmith, tmp_path):
    (tmp_path / "people.yaml").write_text(SCHEMA)
    (tmp_path / "good.csv").write_text(ROWS)
    assert dipsmith("ledger", "grant", "people", "--ledger", "b.db", "--epsilon", "5").code == 0
    return tmp_path


def synthesize(dipsmith, *more, file="good.csv", schema="people.yaml", method="flat", out="out"):
    budget = () if any(str(m) in ("--epsilon", "--rho") for m in more) else ("--epsilon", "1")
    return dipsmith(
        "synthesize",
        file,
        "--schema",
        schema,
        "--method",
        method,
        "--ledger",
        "b.db",
        "--out",
        out,
        *budget,
        *more,
    )


def check(ran, code, mention, office):
    assert ran.code == code, ran.err
    lines = ran.err.strip().splitlines()
    assert len(lines) == 1, ran.err
    assert lines[0].startswith("dipsmith: error: ")
    assert "Traceback" not in ran.err
    assert CANARY not in ran.err + ran.out
    assert mention in lines[0]
    assert not (office / "out").exists()
    assert [p for p in office.iterdir() if p.name.endswith(".partial")] == []


def uncharged(dipsmith):
    import json

    return json.loads(dipsmith("ledger", "show", "people", "--ledger", "b.db", "--json").out)["remaining"] == 5


@pytest.mark.parametrize("case", BAD_FILES)
def test_unreadable_files(dipsmith, office, case):
    name, write, mention = BAD_FILES[case]
    write(office / name)
    check(synthesize(dipsmith, file=name), 3, mention, office)
    assert uncharged(dipsmith)


@pytest.mark.parametrize(
    ("file", "mention"),
    [
        ("nowhere.csv", "nowhere.csv"),
        ("", "empty"),
        ("folder", "folder"),
        ("*.tsv", "*.tsv"),
        ("people.yaml", "people.yaml"),
    ],
)
def test_files_that_are_none(dipsmith, office, file, mention):
    (office / "folder").mkdir()
    check(synthesize(dipsmith, file=file), 3, mention, office)
    assert uncharged(dipsmith)


def test_an_unreadable_file(dipsmith, office, monkeypatch):
    # Root may read anything, so the refusal is simulated where the file is opened.
    (office / "locked.csv").write_text(ROWS)
    (office / "locked.csv").chmod(0)
    if os.geteuid() == 0:
        real = os.open

        def guarded(path, *a, **k):
            if str(path).endswith("locked.csv"):
                raise PermissionError(13, "Permission denied", str(path))
            return real(path, *a, **k)

        import builtins
        import io

        real_open = io.open

        def guarded_open(path, *a, **k):
            if str(path).endswith("locked.csv"):
                raise PermissionError(13, "Permission denied", str(path))
            return real_open(path, *a, **k)

        monkeypatch.setattr(os, "open", guarded)
        monkeypatch.setattr(builtins, "open", guarded_open)
        monkeypatch.setattr(io, "open", guarded_open)
        monkeypatch.setattr(pa, "OSFile", guarded_open)
        monkeypatch.setattr(pa, "memory_map", guarded_open)
    check(synthesize(dipsmith, file="locked.csv"), 3, "locked.csv", office)
    assert uncharged(dipsmith)


FIELD = "  - {name: sex, type: string, enum: [F, M]"
BAD_SCHEMAS = {
    "not YAML": ("a: [1,", ""),
    "a list": ("- 1\n- 2\n", ""),
    "no unit": (SCHEMA.replace("unit: row\n", ""), "unit"),
    "no neighbours": (SCHEMA.replace("neighbours: add-remove\n", ""), "neighbours"),
    "unknown neighbours": (SCHEMA.replace("add-remove", "swap"), "neighbours"),
    "no fields": ("name: people\nunit: row\nneighbours: replace\nfields: []\n", "fields"),
    "unknown key": (SCHEMA.replace(FIELD, FIELD + ", colour: red"), "colour"),
    "field twice": (SCHEMA + "  - {name: sex, type: string, enum: [F, M]}\n", "'sex'"),
    "bounds the wrong way": (SCHEMA.replace("minimum: 17", "minimum: 170"), "age"),
    "edges not rising": (SCHEMA.replace("{width: 10}", "{edges: [17, 50, 40, 90]}"), "age"),
    "no bounds": (SCHEMA.replace("minimum: 17, ", ""), "age"),
    "other not listed": (SCHEMA.replace(FIELD, FIELD + ", other: X"), "sex"),
    "level twice": (SCHEMA.replace("[F, M]", "[F, F]"), "sex"),
    "no policy under replace": (SCHEMA.replace("add-remove", "replace"), "sex"),
    "million levels": (SCHEMA.replace("maximum: 90, bins: {width: 10}", "maximum: 90000000"), "age"),
    "rule names nothing": (SCHEMA + "rules:\n  - {never: {colour: red}}\n", "colour"),
    "weight column": (SCHEMA.replace(FIELD, FIELD + ", role: weight"), "weight"),
    "missing code list": (SCHEMA.replace("[F, M]", "codes.csv"), "codes.csv"),
    "python object": ("name: !!python/object/apply:os.system ['echo hi']\n", ""),
}


@pytest.mark.parametrize("case", BAD_SCHEMAS)
def test_bad_schemas(dipsmith, office, case):
    content, mention = BAD_SCHEMAS[case]
    (office / "bad.yaml").write_text(content)
    check(synthesize(dipsmith, schema="bad.yaml"), 3, mention, office)
    assert uncharged(dipsmith)


@pytest.mark.parametrize(
    ("more", "code", "mention"),
    [
        (("--epsilon", "0"), 4, "0"),
        (("--epsilon", "-1"), 4, "-1"),
        (("--epsilon", "nan"), 4, "nan"),
        (("--epsilon", "inf"), 4, "inf"),
        (("--epsilon", "lots"), 4, "lots"),
        (("--epsilon", "6"), 4, "ledger grant"),
        (("--rho", "0.1"), 4, "ε"),
        (("--epsilon", "1", "--rho", "1"), 2, "--rho"),
        (("--epsilon", "1", "--delta", "2"), 4, "2"),
        (("--sets", "3"), 2, "each"),
        (("--each", "draw"), 2, "sets"),
        (("--onto", "good.csv"), 2, "label"),
        (("--set", "colour=red"), 2, "colour"),
        (("--set", "post=[1,"), 2, "post"),
        (("--set", "post=maybe"), 2, "post"),
        (("--set", "count_share=2020-13-45"), 2, "count_share"),
        (("--set", "count_share=.nan"), 2, "expected a number"),
        (("--rows", "-5"), 2, "-5"),
        (("--rows", "1000000000000"), 2, "rows is 1000000000000"),
        (("--rows", "9" * 30), 2, "memory"),
        (("--sets", "1000000000000", "--each", "draw"), 2, "at most 10,000"),
        (("--request", ""), 2, "request id"),
        (("--format", "xls"), 2, "xls"),
    ],
)
def test_bad_options(dipsmith, office, more, code, mention):
    check(synthesize(dipsmith, *more), code, mention, office)
    assert uncharged(dipsmith)


@pytest.mark.parametrize(
    ("method", "given", "mention"),
    [
        ("forest", "trees=1.5", "--set trees=1.5: expected a whole number below 1,000,000,000"),
        ("forest", "trees=.inf", "expected a whole number"),
        ("forest", "trees=99999999999999999999", "expected a whole number"),
        ("forest", "strata=[age]", "expected a name, or null"),
        ("forest", "targets=[[sex]]", "expected a list of names, as in [a, b], or null"),
        ("forest", "must_include=", "expected a list of names"),
        ("forest", "public=people.csv", "only Python can give"),
        ("forest", "weights=[1]", "expected auto, or names with numbers"),
        ("aim", "workload=age", "expected a list of lists of names"),
        ("marginals", "weights=0", "expected a list of numbers"),
        ("forest", "n_b=" + "[" * 5000, "not readable"),
    ],
)
def test_a_setting_of_another_type_is_refused_before_the_charge(dipsmith, office, method, given, mention):
    """Under label no plan is made before the charge, so that a method would find out only after it."""
    label = SCHEMA.replace("add-remove", "label").replace("[F, M]", "[F, M], other: M")
    (office / "people.yaml").write_text(label.replace("{width: 10}", "{width: 10}, role: public"))
    check(synthesize(dipsmith, "--set", given, method=method), 2, mention, office)
    assert uncharged(dipsmith)


def test_settings_are_read_as_they_were(office):
    from dipsmith.cli.settings import method_of
    from dipsmith.schema import Schema

    schema = Schema.read(office / "people.yaml")
    forest = method_of("forest", ["targets=sex, 2011", "trees=3", "n_b=2.0", "weights={age: 2}"], schema)
    assert (forest.targets, forest.trees, forest.n_b) == (("sex", "2011"), 3, 2)
    assert method_of("forest", ["targets=[sex, 2011]"], schema).targets == ("sex", "2011")
    model = method_of("loglinear", ["targets=sex", "analyses=sex ~ poly(age, 2)", "interactions=0"], schema)
    assert model.analyses == ("sex ~ poly(age, 2)",)
    assert method_of("steps", ["layers=1", "groups=[[age], [sex]]"], schema).layers == 1


def test_unknown_method_and_dataset(dipsmith, office):
    check(synthesize(dipsmith, method="magic"), 2, "magic", office)
    (office / "other.yaml").write_text(SCHEMA.replace("name: people", "name: others"))
    check(synthesize(dipsmith, schema="other.yaml"), 4, "others", office)
    assert uncharged(dipsmith)


def test_output_exists(dipsmith, office):
    (office / "there").mkdir()
    check(synthesize(dipsmith, out="there"), 3, "exists already", office)
    check(synthesize(dipsmith, out="no/where"), 3, "does not exist", office)
    assert uncharged(dipsmith)


def test_disk_full(dipsmith, office, monkeypatch):
    import shutil

    real = shutil.disk_usage("/")
    with monkeypatch.context() as patch:
        patch.setattr(shutil, "disk_usage", lambda path: real._replace(free=1000))
        check(synthesize(dipsmith), 3, "64 MB", office)
    assert uncharged(dipsmith)

    def full(*args, **kwargs):
        raise OSError(28, "No space left on device")

    with monkeypatch.context() as patch:
        patch.setattr(pq, "ParquetWriter", full)
        check(synthesize(dipsmith, "--request", "full"), 3, "No space left", office)
    assert not uncharged(dipsmith)  # rows were read: the charge stays
    ran = synthesize(dipsmith, "--request", "full")
    assert ran.code == 4  # and the request never draws again


def test_ledger_that_is_none(dipsmith, office):
    (office / "b.db").write_bytes(b"not a database, but long enough to be read as one" * 100)
    check(synthesize(dipsmith), 5, "b.db", office)
    (office / "b.db").unlink()
    check(synthesize(dipsmith), 4, "grant", office)


def test_unexpected_failures_show_no_values(dipsmith, office, monkeypatch):
    def explode(*args, **kwargs):
        raise RuntimeError(f"value {CANARY}")

    monkeypatch.setattr("dipsmith.methods.hierarchy.flat.Flat.fit", explode)
    check(synthesize(dipsmith), 1, "RuntimeError", office)
    monkeypatch.setenv("DIPSMITH_DEBUG", "1")
    check(synthesize(dipsmith), 1, "CONFIDENTIAL", office)
    (log,) = office.glob("dipsmith-debug-CONFIDENTIAL-*.log")
    assert CANARY in log.read_text()
    assert log.stat().st_mode & 0o077 == 0


def test_the_debug_log_is_written_through_no_link(dipsmith, office, monkeypatch, tmp_path_factory):
    """A link that lies ready under the log's name, in a folder that others can write to, gets nothing."""
    theirs = tmp_path_factory.mktemp("theirs") / "taken"
    theirs.write_text("theirs")
    for name in ("dipsmith-debug-CONFIDENTIAL.log", "dipsmith-debug-CONFIDENTIAL-.log"):
        (office / name).symlink_to(theirs)

    def explode(*args, **kwargs):
        raise RuntimeError(f"value {CANARY}")

    monkeypatch.setattr("dipsmith.methods.hierarchy.flat.Flat.fit", explode)
    monkeypatch.setenv("DIPSMITH_DEBUG", "1")
    ran = synthesize(dipsmith)
    check(synthesize(dipsmith), 1, "CONFIDENTIAL", office)
    assert theirs.read_text() == "theirs"
    logs = [p for p in office.glob("dipsmith-debug-*") if not p.is_symlink()]
    assert len(logs) == 2
    assert any(log.name in ran.err for log in logs)
    assert all(CANARY in log.read_text() and log.stat().st_mode & 0o777 == 0o600 for log in logs)


@pytest.mark.parametrize("rows", [-5, 0, 99])
def test_a_demo_of_too_few_rows_is_refused_before_it_begins(dipsmith, tmp_path, rows):
    ran = dipsmith("demo", "--rows", rows)
    assert ran.code == 2
    assert f"--rows is {rows}, expected 100 or more" in ran.err
    assert not list(tmp_path.iterdir())
