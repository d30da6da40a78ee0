"""Canaries in private values, unit names, paths and passwords: never in what is released, printed, logged or raised."""

import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.csv as pa_csv
import pytest

import dipsmith as ds
from dipsmith.errors import DipsmithError
from dipsmith.methods.catalogue import METHODS

VALUE, NUMBER, UNIT, PLACE, PASSWORD = (
    "CANARY-value-8d1f", "731946825", "CANARY-unit-77aa", "CANARY-folder-c0de", "CANARY-password-5eed"
)  # fmt: skip
PRIVATE = (VALUE, NUMBER, UNIT)

SCHEMA = """
name: people
unit: {{column: id, max_rows: 1}}
neighbours: {neighbours}
fields:
  - {{name: age, type: integer, minimum: 17, maximum: 90, bins: {{width: 20}}, role: public}}
  - {{name: sex, type: string, enum: [F, M], other: M, role: private}}
  - {{name: pay, type: number, minimum: 0, maximum: 200000, bins: {{round: 100000}}, missing: true, role: private}}
"""


def write_rows(path):
    rng = np.random.default_rng(0)
    n = 200
    rows = pa.table(
        {
            "id": [f"{UNIT}-{i}" for i in range(n)],
            "age": rng.integers(17, 91, n),
            "sex": [VALUE if i % 7 == 0 else "F" for i in range(n)],
            "pay": [NUMBER if i % 5 == 0 else str(1000 * i) for i in range(n)],
        }
    )
    pa_csv.write_csv(rows, path)


def hits(canaries, *places):
    """Where a canary is found: in texts, and in every byte of every file of folders, unpacked where needed."""
    found = []
    for place in places:
        texts = {"text": place.encode()} if isinstance(place, str) else contents(place)
        for name, data in texts.items():
            found += [f"{canary} in {name}" for canary in canaries if canary.encode() in data]
    return found


def contents(folder):
    held = {}
    for path in [folder] if folder.is_file() else sorted(folder.rglob("*")):
        if not path.is_file():
            continue
        held[str(path)] = path.read_bytes()
        if path.suffix == ".npz":
            with np.load(path) as arrays:
                held[f"{path} unpacked"] = b"".join(repr(arrays[a].tolist()).encode() for a in arrays.files)
        if path.suffix == ".parquet":
            held[f"{path} unpacked"] = repr(pa.parquet.read_table(path).to_pydict()).encode()
    return held


@pytest.fixture
def office(tmp_path, monkeypatch):
    folder = tmp_path / PLACE
    folder.mkdir()
    write_rows(folder / "people.csv")
    for relation in ("add-remove", "replace", "label"):
        (folder / f"{relation}.yaml").write_text(SCHEMA.format(neighbours=relation))
    monkeypatch.chdir(tmp_path)
    return folder


def run(dipsmith_main, capsys, monkeypatch, *arguments):
    monkeypatch.setattr(sys, "argv", ["dipsmith", *map(str, arguments)])
    capsys.readouterr()
    with pytest.raises(SystemExit) as stopped:
        dipsmith_main()
    captured = capsys.readouterr()
    return int(stopped.value.code or 0), captured.out + captured.err


@pytest.mark.parametrize("method", METHODS)
def test_no_canary_in_a_release_or_on_the_terminal(method, office, tmp_path, capsys, monkeypatch):
    import pyarrow.parquet  # noqa: F401 - used by `contents`

    from dipsmith.cli.main import main

    # Figures are drawn from the synthetic rows alone, and take most of the time: once is enough here.
    monkeypatch.setattr("dipsmith.report.figures.available", lambda: method == "forest")
    relation = METHODS[method].relations[-1]
    ledger, out = tmp_path / "b.db", tmp_path / "release"
    said = []
    for arguments in (
        ("ledger", "grant", "people", "--ledger", ledger, "--epsilon", "9"),
        ("synthesize", office / "people.csv", "--schema", office / f"{relation}.yaml", "--method", method,
         "--epsilon", "1", "--ledger", ledger, "--out", out, "--request", "r"),
        ("verify", out, "--ledger", ledger),
        ("report", out),
        ("ledger", "show", "--ledger", ledger),
    ):  # fmt: skip
        code, text = run(main, capsys, monkeypatch, *arguments)
        if arguments[0] != "report":
            assert code == 0, text
        said.append(text)
    assert hits(PRIVATE, *said) == []
    assert hits((*PRIVATE, PLACE), out) == []
    assert hits(PRIVATE, ledger) == []
    # The check itself can fail: the canaries are in the source.
    assert len(hits(PRIVATE, office / "people.csv")) == 3


def test_no_canary_in_refusals(office, tmp_path, capsys, monkeypatch):
    from dipsmith.cli.main import main

    broken = office / "broken.csv"
    broken.write_text(f"id,age,sex,pay\n{UNIT},{VALUE},F\n{UNIT},1,2,3,{NUMBER}\n")
    short = office / "short.csv"
    short.write_text(f"id,age\n{UNIT},{NUMBER}\n")
    for file in (broken, short, office / "absent.csv"):
        for method in ("flat", "mst"):
            code, text = run(
                main, capsys, monkeypatch,
                "synthesize", file, "--schema", office / "replace.yaml", "--method", method,
                "--epsilon", "1", "--ledger", tmp_path / "b.db", "--out", tmp_path / "out",
            )  # fmt: skip
            assert code in (3, 4)
            assert hits(PRIVATE, text) == []


@pytest.mark.parametrize(
    "address",
    [
        f"postgresql://someone:{PASSWORD}@127.0.0.1:1/people",
        f"mysql://someone:{PASSWORD}@127.0.0.1:1/people",
        f"snowflake://someone:{PASSWORD}@nowhere/people",
    ],
)
def test_no_password_in_refusals(address, office, tmp_path, capsys, monkeypatch):
    from dipsmith.cli.main import main

    for extra in ((), ("--table", "people")):
        code, text = run(
            main, capsys, monkeypatch,
            "synthesize", address, *extra, "--schema", office / "replace.yaml", "--method", "flat",
            "--epsilon", "1", "--ledger", tmp_path / "b.db", "--out", tmp_path / "out",
        )  # fmt: skip
        assert code != 0
        assert hits((PASSWORD,), text) == []


class SabotageError(Exception):
    """An unexpected failure that quotes a private value."""


def sabotage(*_, **__):
    raise SabotageError(f"could not parse {VALUE} of {UNIT}")


def failing(office, tmp_path, capsys, monkeypatch, *more):
    from dipsmith.cli.main import main

    run(
        main,
        capsys,
        monkeypatch,
        "ledger",
        "grant",
        "people",
        "--ledger",
        tmp_path / "b.db",
        "--epsilon",
        "9",
    )
    monkeypatch.setattr("dipsmith.counting.count.Tally", sabotage)
    return run(
        main, capsys, monkeypatch,
        *more, "synthesize", office / "people.csv", "--schema", office / "replace.yaml", "--method", "flat",
        "--epsilon", "1", "--ledger", tmp_path / "b.db", "--out", tmp_path / "out",
    )  # fmt: skip


def test_an_unexpected_failure_names_nothing_private(office, tmp_path, capsys, monkeypatch):
    code, text = failing(office, tmp_path, capsys, monkeypatch)
    assert code == 1
    assert "unexpected failure" in text
    assert hits(PRIVATE, text) == []
    assert hits(PRIVATE, tmp_path / "b.db") == []
    assert not list(tmp_path.glob("*.log"))


def test_with_debug_only_the_confidential_log_holds_it(office, tmp_path, capsys, monkeypatch):
    monkeypatch.setenv("DIPSMITH_DEBUG", "")
    code, text = failing(office, tmp_path, capsys, monkeypatch, "--debug")
    assert code == 1
    assert hits(PRIVATE, text) == []
    (log,) = tmp_path.glob("*CONFIDENTIAL-*.log")
    assert VALUE in log.read_text()
    assert log.stat().st_mode & 0o077 == 0
    assert hits(PRIVATE, tmp_path / "b.db") == []


def test_no_canary_in_exceptions_of_the_library(office):
    """Whatever is wrong with the rows, what is raised quotes none of them."""
    schema = ds.Schema.read(office / "replace.yaml")
    tables = [
        pa.table({"id": [UNIT], "age": [VALUE], "sex": [NUMBER]}),
        pa.table({"id": [[UNIT]], "age": [{"a": VALUE}], "sex": [VALUE.encode()], "pay": [NUMBER]}),
        str(office / "broken.csv"),
    ]
    (office / "broken.csv").write_text(f'id,age,sex,pay\n"{UNIT},{VALUE}\n')
    for table in tables:
        try:
            release = ds.synthesize(table, schema, ds.Flat(), budget=ds.PureDP(1), testing=True, noise_seed=1)
        except DipsmithError as error:
            text = f"{error} {error.__cause__}"
        else:
            text = f"{release} {release.tables[0].to_pydict()}"
        assert hits(PRIVATE, text) == []


def test_no_canary_in_a_process_of_its_own(office, tmp_path):
    """Standard error and output of a real process, warnings and interpreter messages included."""
    ran = subprocess.run(
        [sys.executable, "-W", "always", "-m", "dipsmith.cli.main", "synthesize", str(office / "people.csv"), "--schema",
         str(office / "replace.yaml"), "--method", "flat", "--epsilon", "1", "--ledger", str(tmp_path / "b.db"), "--out",
         str(tmp_path / "out")],
        capture_output=True, text=True, check=False, env={**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)},
    )  # fmt: skip
    assert ran.returncode == 4  # no grant
    assert hits((*PRIVATE, PASSWORD), ran.stdout, ran.stderr) == []
    assert not Path(tmp_path / "out").exists()
